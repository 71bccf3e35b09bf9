// Where pictures, videos and sounds are brought: by dropping, pasting or choosing.
import { useRef, useState } from 'preact/hooks';
import { change, draft, labelsOf, modes, type Draft, type Mode, type Span } from '../draft';
import { bytes } from '../format';
import { t, type MessageKey } from '../i18n';
import { accepts, filesIn, hasSound, inputOf, kindOf, release, type FileKind, type InputFile } from '../media';
import { useStore } from '../store';
import { note } from './announcer';
import { useMedia } from './picture';

const atMost: Record<FileKind, number> = { image: 9, video: 3, audio: 3 };
const atMostReferences = 12;

function wrong(file: File, kinds: FileKind[]): void {
  note(t('drop.wrong', { name: file.name, wanted: kinds.map((kind) => t(`kind.${kind}`)).join(' / ') }), true);
}

function addReferences(files: File[]): void {
  for (const file of files) {
    const kind = kindOf(file);
    const { references } = draft.value;
    if (!kind) wrong(file, ['image', 'video', 'audio']);
    else if (references.length >= atMostReferences || references.filter((input) => input.kind === kind).length >= atMost[kind])
      note(t('drop.too_many', { name: file.name }), true);
    else {
      const input = inputOf(file, kind);
      change({ references: [...references, input] });
      if (kind === 'video') void hasSound(file).then((sound) => (sound ? undefined : setSound(input.id, false)));
    }
  }
}

function setSound(id: number, sound: boolean): void {
  change({ references: draft.value.references.map((input) => (input.id === id ? { ...input, sound } : input)) });
}

type Slot = 'first' | 'last' | 'source';

function fill(slot: Slot, files: File[], kinds: FileKind[]): void {
  const file = files[0];
  if (!file) return;
  const kind = kindOf(file);
  if (!kind || !kinds.includes(kind)) return wrong(file, kinds);
  release(draft.value[slot]);
  change({ [slot]: inputOf(file, kind) } as Partial<Draft>);
}

// Files that were pasted, or dropped beside the zones, go where they make sense.
export function takeFiles(files: File[]): void {
  const { mode, first } = draft.value;
  if (mode === 'references') addReferences(files);
  else if (mode === 'retake' || mode === 'sound_for_video') fill('source', files, ['video']);
  else if (mode === 'video_for_sound') fill('source', files, ['audio']);
  else if (files.length === 1 && files[0] && kindOf(files[0]) === 'image') {
    change({ mode: 'keyframes' });
    fill(mode === 'keyframes' && first ? 'last' : 'first', files, ['image']);
  } else {
    change({ mode: 'references' });
    addReferences(files);
  }
}

interface ZoneProps {
  title: string;
  kinds: FileKind[];
  multiple?: boolean;
  onFiles: (files: File[]) => void;
}

function Zone({ title, kinds, multiple, onFiles }: ZoneProps) {
  const [over, setOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  return (
    <label
      class={over ? 'zone over' : 'zone'}
      onDragOver={(event) => {
        event.preventDefault();
        event.stopPropagation();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        event.stopPropagation();
        setOver(false);
        onFiles(filesIn(event.dataTransfer));
      }}
    >
      <input
        ref={input}
        type="file"
        class="spoken"
        accept={kinds.map((kind) => accepts[kind]).join(',')}
        multiple={multiple ?? false}
        onChange={(event) => {
          onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = '';
        }}
      />
      <strong>{title}</strong>
      <span class="muted small">{t('drop.hint')}</span>
    </label>
  );
}

function Seen({ input, url }: { input: InputFile; url: string }) {
  if (input.kind === 'image') return <img src={url} alt="" />;
  if (input.kind === 'video') return <video src={`${url}#t=0.1`} muted playsInline preload="metadata" aria-hidden="true" tabIndex={-1} />;
  return <audio src={url} controls preload="metadata" aria-label={input.name} />;
}

function SeenEarlier({ input }: { input: InputFile }) {
  const url = useMedia(input.url);
  return url ? <Seen input={input} url={url} /> : null;
}

interface CardProps {
  input: InputFile;
  title: string;
  onRemove: () => void;
  onEarlier?: (() => void) | undefined;
  onSound?: (used: boolean) => void; // of a video whose sound is a choice
}

function FileCard({ input, title, onRemove, onEarlier, onSound }: CardProps) {
  return (
    <div class={`file ${input.kind}`}>
      {input.file ? <Seen input={input} url={input.url} /> : <SeenEarlier input={input} />}
      <div class="file-text">
        <strong>{title}</strong>
        <span class="muted small name">{input.file ? `${input.name} · ${bytes(input.file.size)}` : t('drop.earlier_input')}</span>
        {onSound && input.kind === 'video' && (
          <label class="check small">
            <input type="checkbox" checked={input.sound} onChange={(event) => onSound(event.currentTarget.checked)} />
            {t('drop.sound_used')}
          </label>
        )}
      </div>
      <div class="file-actions">
        {onEarlier && (
          <button type="button" class="quiet" aria-label={t('drop.earlier', { label: title })} onClick={onEarlier}>
            ↑
          </button>
        )}
        <button type="button" class="quiet" aria-label={t('drop.remove', { name: input.name })} onClick={onRemove}>
          ✕
        </button>
      </div>
    </div>
  );
}

function SlotZone({ slot, title, kinds }: { slot: Slot; title: string; kinds: FileKind[] }) {
  const input = useStore(draft)[slot];
  if (!input) return <Zone title={title} kinds={kinds} onFiles={(files) => fill(slot, files, kinds)} />;
  const clear = (): void => {
    release(input);
    change({ [slot]: null } as Partial<Draft>);
  };
  return <FileCard input={input} title={title} onRemove={clear} />;
}

function References() {
  const { references } = useStore(draft);
  const labels = labelsOf(references);
  const remove = (input: InputFile): void => {
    release(input);
    change({ references: references.filter((other) => other !== input) });
  };
  const earlier = (i: number): void => {
    const moved = [...references];
    moved.splice(i - 1, 0, ...moved.splice(i, 1));
    change({ references: moved });
  };
  return (
    <>
      {references.map((input, i) => (
        <FileCard
          key={input.id}
          input={input}
          title={(labels[i] ?? []).join(' + ')}
          onRemove={() => remove(input)}
          onSound={(sound) => setSound(input.id, sound)}
          onEarlier={i > 0 ? () => earlier(i) : undefined}
        />
      ))}
      <Zone title={t('drop.reference')} kinds={['image', 'video', 'audio']} multiple onFiles={addReferences} />
    </>
  );
}

function SpanFields({ name, value, onChange }: { name: string; value: Span; onChange: (span: Span) => void }) {
  const part = (key: keyof Span) => (
    <input
      type="number"
      min="0"
      step="0.01"
      inputMode="decimal"
      aria-label={`${name}: ${t(`retake.${key}`)}`}
      placeholder={t(`retake.${key}`)}
      value={value[key]}
      onInput={(event) => onChange({ ...value, [key]: event.currentTarget.value })}
    />
  );
  return (
    <div class="span">
      <span>{name}</span>
      {part('from')}
      <span aria-hidden="true">–</span>
      {part('to')}
    </div>
  );
}

function Retake() {
  const now = useStore(draft);
  return (
    <>
      <SlotZone slot="source" title={t('drop.video')} kinds={['video']} />
      <SpanFields name={t('retake.pictures')} value={now.retakePictures} onChange={(retakePictures) => change({ retakePictures })} />
      <SpanFields name={t('retake.sound')} value={now.retakeSound} onChange={(retakeSound) => change({ retakeSound })} />
      <p class="muted small">{t('retake.hint')}</p>
    </>
  );
}

function setMode(mode: Mode): void {
  const now = draft.value;
  // A sound cannot stand where a video is wanted, and the other way round.
  const fits = now.source === null || (mode === 'video_for_sound') === (now.source.kind === 'audio');
  if (!fits && (mode === 'retake' || mode === 'sound_for_video' || mode === 'video_for_sound')) {
    release(now.source);
    change({ mode, source: null });
  } else change({ mode });
}

export function Inputs() {
  const { mode } = useStore(draft);
  return (
    <fieldset class="inputs">
      <legend>{t('inputs.label')}</legend>
      <div class="modes">
        {modes.map((name) => (
          <label key={name} class={name === mode ? 'mode chosen' : 'mode'}>
            <input type="radio" name="mode" class="spoken" checked={name === mode} onChange={() => setMode(name)} />
            {t(`mode.${name}` as MessageKey)}
          </label>
        ))}
      </div>
      {mode === 'keyframes' && (
        <div class="pair">
          <SlotZone slot="first" title={t('drop.first')} kinds={['image']} />
          <SlotZone slot="last" title={t('drop.last')} kinds={['image']} />
        </div>
      )}
      {mode === 'references' && <References />}
      {mode === 'retake' && <Retake />}
      {mode === 'sound_for_video' && <SlotZone slot="source" title={t('drop.video')} kinds={['video']} />}
      {mode === 'video_for_sound' && <SlotZone slot="source" title={t('drop.sound')} kinds={['audio']} />}
    </fieldset>
  );
}
