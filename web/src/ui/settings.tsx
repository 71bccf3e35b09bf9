import { api, type Model } from '../api';
import { change, changeSettings, draft, hasFit, type Kept, type Settings as Values } from '../draft';
import { t } from '../i18n';
import { Store, useStore } from '../store';

const loras = new Store<string[]>([]); // those of the server, asked for when they may be wanted

function askLoras(): void {
  if (loras.value.length > 0) return;
  api.loras().then(
    ({ data }) => (loras.value = data.map(({ id }) => id)),
    () => undefined,
  );
}

const ratios = ['16:9', '9:16', '1:1', '4:3', '3:4', '21:9'];

interface NumberProps {
  label: string;
  name: 'width' | 'height' | 'shortEdge' | 'seconds' | 'steps' | 'seed' | 'videoShift' | 'audioShift' | 'outputs';
  min: number;
  max: number;
  step?: number | 'any';
  placeholder?: string | undefined;
}

function NumberField({ label, name, min, max, step = 1, placeholder }: NumberProps) {
  const { settings } = useStore(draft);
  return (
    <label class="field">
      <span>{label}</span>
      <input
        type="number"
        name={name}
        min={min}
        max={max}
        step={step}
        inputMode={step === 1 ? 'numeric' : 'decimal'}
        placeholder={placeholder ?? ''}
        value={settings[name]}
        onInput={(event) => changeSettings({ [name]: event.currentTarget.value } as Partial<Values>)}
      />
    </label>
  );
}

function Loras({ known }: { known: string[] }) {
  const { loras } = useStore(draft).settings;
  const set = (i: number, part: Partial<Values['loras'][number]>): void =>
    changeSettings({ loras: loras.map((lora, j) => (i === j ? { ...lora, ...part } : lora)) });
  return (
    <fieldset class="loras">
      <legend>{t('settings.loras')}</legend>
      {known.length > 0 && (
        <datalist id="known-loras">
          {known.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
      {loras.map((lora, i) => (
        <div key={i} class="lora">
          <input
            aria-label={t('settings.lora_name')}
            placeholder={t('settings.lora_name')}
            list="known-loras"
            value={lora.name}
            spellcheck={false}
            onInput={(event) => set(i, { name: event.currentTarget.value })}
          />
          <input
            type="number"
            step="any"
            inputMode="decimal"
            aria-label={t('settings.lora_scale')}
            value={lora.scale}
            onInput={(event) => set(i, { scale: event.currentTarget.value })}
          />
          <button
            type="button"
            class="quiet"
            aria-label={t('settings.lora_remove', { name: lora.name })}
            onClick={() => changeSettings({ loras: loras.filter((_, j) => i !== j) })}
          >
            ✕
          </button>
        </div>
      ))}
      <button type="button" class="chip" onClick={() => changeSettings({ loras: [...loras, { name: '', scale: '1' }] })}>
        {t('settings.lora_add')}
      </button>
    </fieldset>
  );
}

// What was taken over from a job and has no field of its own.
function KeptValues() {
  const { kept } = useStore(draft);
  const names = Object.keys(kept) as (keyof Kept)[];
  if (names.length === 0) return null;
  const remove = (name: keyof Kept): void => {
    const { [name]: _, ...rest } = kept;
    change({ kept: rest });
  };
  return (
    <p class="row wrap small">
      <span class="muted">{t('settings.kept')}</span>
      {names.map((name) => (
        <button key={name} type="button" class="chip" aria-label={t('settings.kept_remove', { name })} onClick={() => remove(name)}>
          {name} {String(kept[name])} ✕
        </button>
      ))}
    </p>
  );
}

export function Settings({ model }: { model: Model | undefined }) {
  const known = useStore(loras);
  const { mode, settings } = useStore(draft);
  const defaults = model?.defaults ?? {};
  const shown = (value: number | undefined): string | undefined => (value === undefined ? undefined : String(value));
  const length = defaults.frames === undefined ? undefined : (defaults.frames / 24).toFixed(2);
  const edge = defaults.width && defaults.height ? String(Math.min(defaults.width, defaults.height)) : undefined;
  const advanced =
    settings.videoShift || settings.audioShift || settings.loras.length > 0 || (settings.outputs !== '1' && settings.outputs !== '');
  return (
    <fieldset class="settings">
      <legend>{t('settings.title')}</legend>
      <div class="grid">
        <label class="field">
          <span>{t('settings.size')}</span>
          <select name="size" value={settings.size} onChange={(event) => changeSettings({ size: event.currentTarget.value })}>
            <option value="">{t('settings.default')}</option>
            {mode !== 'text' && mode !== 'video_for_sound' && <option value="auto">{t('settings.auto')}</option>}
            {ratios.map((ratio) => (
              <option key={ratio} value={ratio}>
                {ratio}
              </option>
            ))}
            <option value="exact">{t('settings.exact')}</option>
          </select>
        </label>
        {settings.size === 'exact' && (
          <>
            <NumberField label={t('settings.width')} name="width" min={1} max={8192} placeholder={shown(defaults.width)} />
            <NumberField label={t('settings.height')} name="height" min={1} max={8192} placeholder={shown(defaults.height)} />
          </>
        )}
        {settings.size !== '' && settings.size !== 'exact' && (
          <NumberField label={t('settings.short_edge')} name="shortEdge" min={1} max={8192} placeholder={edge} />
        )}
        <NumberField label={t('settings.seconds')} name="seconds" min={0.01} max={150} step="any" placeholder={length} />
        <NumberField label={t('settings.steps')} name="steps" min={1} max={1000} placeholder={shown(defaults.steps)} />
        <NumberField label={t('settings.seed')} name="seed" min={0} max={4294967295} placeholder={t('settings.random')} />
      </div>
      <details open={Boolean(advanced)} onToggle={(event) => event.currentTarget.open && askLoras()}>
        <summary>{t('settings.more')}</summary>
        <div class="grid">
          <NumberField
            label={t('settings.video_shift')}
            name="videoShift"
            min={0.1}
            max={100}
            step="any"
            placeholder={shown(defaults.video_shift)}
          />
          <NumberField
            label={t('settings.audio_shift')}
            name="audioShift"
            min={0.1}
            max={100}
            step="any"
            placeholder={shown(defaults.audio_shift)}
          />
          <NumberField label={t('settings.outputs')} name="outputs" min={1} max={10} />
          {hasFit(mode) && (
            <label class="field">
              <span>{t('settings.fit')}</span>
              <select name="fit" value={settings.fit} onChange={(event) => changeSettings({ fit: event.currentTarget.value })}>
                {(['cover', 'contain', 'stretch'] as const).map((fit) => (
                  <option key={fit} value={fit}>
                    {t(`settings.${fit}`)}
                  </option>
                ))}
              </select>
            </label>
          )}
        </div>
        <Loras known={known} />
      </details>
      <KeptValues />
    </fieldset>
  );
}
