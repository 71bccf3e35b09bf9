import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { change, draft, filesOf, keepForUndo, labelsOf, replaced, type Draft } from '../draft';
import { t, type MessageKey } from '../i18n';
import { lint, type Finding } from '../lint';
import { nextBlank, templates } from '../templates';
import { useStore } from '../store';
import { say } from './announcer';

export function findingsOf(now: Draft, seconds?: number): Finding[] {
  const references = now.mode === 'references';
  const labels = references ? labelsOf(now.references).flat() : [];
  const count = (kind: string): number => labels.filter((label) => label.startsWith(`<${kind}`)).length;
  const keyframes = now.mode === 'keyframes' ? filesOf(now).length : 0;
  return lint({
    prompt: now.prompt,
    references,
    pictures: references ? count('Picture') : keyframes,
    videos: count('Video'),
    audios: count('Audio'),
    ...(seconds === undefined ? {} : { seconds }),
  });
}

export function FindingLine({ finding }: { finding: Finding }) {
  return (
    <li class={`finding ${finding.level}`}>
      <strong>{t(`level.${finding.level}`)}</strong> {t(finding.code as MessageKey, finding.values)}
    </li>
  );
}

function Remarks({ findings, started }: { findings: Finding[]; started: boolean }) {
  const visible = started ? findings : [];
  const said = useRef(0);
  // How many there are is said after a longer pause, and only when it changes; what they say is read with the field.
  useEffect(() => {
    const timer = setTimeout(() => {
      if (visible.length !== said.current) say(visible.length === 0 ? t('prompt.fine') : t('prompt.remarks', { count: visible.length }));
      said.current = visible.length;
    }, 1500);
    return () => clearTimeout(timer);
  }, [visible.length]);
  return (
    <section id="remarks" class="remarks" aria-label={t('prompt.checks')}>
      {visible.length > 0 && (
        <ul>
          {visible.map((finding) => (
            <FindingLine key={finding.code + JSON.stringify(finding.values)} finding={finding} />
          ))}
        </ul>
      )}
    </section>
  );
}

export function PromptEditor({ tokens, seconds }: { tokens?: number | undefined; seconds?: number | undefined }) {
  const now = useStore(draft);
  const area = useRef<HTMLTextAreaElement>(null);
  const before = useStore(replaced);
  const [settled, setSettled] = useState(now);
  // Remarks wait for a pause: nobody wants to be corrected in the middle of a word.
  useEffect(() => {
    const timer = setTimeout(() => setSettled(now), 350);
    return () => clearTimeout(timer);
  }, [now]);
  const findings = useMemo(() => findingsOf(settled, seconds), [settled, seconds]);
  const labels =
    now.mode === 'references'
      ? labelsOf(now.references).flat()
      : filesOf(now).length > 0 && now.mode === 'keyframes'
        ? filesOf(now).map((_, i) => `<Picture ${i + 1}>`)
        : [];
  const hasBlank = nextBlank(now.prompt, 0) !== null;

  const select = (from: number, to: number): void => {
    requestAnimationFrame(() => {
      area.current?.focus();
      area.current?.setSelectionRange(from, to);
    });
  };
  const toBlank = (text: string, from: number): void => {
    const blank = nextBlank(text, from);
    if (blank) select(...blank);
  };
  const insert = (text: string): void => {
    const { selectionStart: from, selectionEnd: to } = area.current ?? {
      selectionStart: now.prompt.length,
      selectionEnd: now.prompt.length,
    };
    change({ prompt: now.prompt.slice(0, from) + text + now.prompt.slice(to) });
    select(from + text.length, from + text.length);
  };
  const take = (id: string): void => {
    const template = templates.find((candidate) => candidate.id === id);
    if (!template) return;
    keepForUndo();
    const mode = { first: 'keyframes', first_last: 'keyframes', reference: 'references', voice: 'references', edit: 'references' } as const;
    const wanted = mode[id as keyof typeof mode];
    change({ prompt: template.text, ...(wanted ? { mode: wanted } : {}) });
    toBlank(template.text, 0);
  };

  return (
    <div class="prompt">
      <div class="row between">
        <label for="prompt">{t('prompt.label')}</label>
        <select
          class="compact"
          aria-label={t('prompt.template')}
          value=""
          onChange={(event) => {
            take(event.currentTarget.value);
            event.currentTarget.value = '';
          }}
        >
          <option value="">{t('prompt.choose')}</option>
          {templates.map(({ id }) => (
            <option key={id} value={id}>
              {t(`template.${id}` as MessageKey)}
            </option>
          ))}
        </select>
      </div>
      <textarea
        id="prompt"
        ref={area}
        rows={9}
        value={now.prompt}
        placeholder={t('prompt.placeholder')}
        aria-keyshortcuts="Control+Enter"
        aria-describedby="remarks"
        spellcheck={false}
        onInput={(event) => {
          replaced.value = null;
          change({ prompt: event.currentTarget.value });
        }}
      />
      <div class="row wrap small">
        <span class="muted">
          {t('prompt.characters', { count: [...now.prompt].length })}
          {tokens !== undefined && ` · ${t('prompt.tokens', { count: tokens })}`}
        </span>
        {labels.map((label) => (
          <button
            key={label}
            type="button"
            class="chip"
            title={t('prompt.insert', { label })}
            aria-label={t('prompt.insert', { label })}
            onClick={() => insert(label)}
          >
            {label}
          </button>
        ))}
        {hasBlank && (
          <button type="button" class="chip" onClick={() => toBlank(now.prompt, area.current?.selectionEnd ?? 0)}>
            {t('prompt.next')}
          </button>
        )}
        {before !== null && before !== now.prompt && (
          <button
            type="button"
            class="chip"
            onClick={() => {
              change({ prompt: before });
              replaced.value = null;
            }}
          >
            {t('prompt.undo')}
          </button>
        )}
      </div>
      <Remarks findings={findings} started={settled.prompt !== ''} />
    </div>
  );
}
