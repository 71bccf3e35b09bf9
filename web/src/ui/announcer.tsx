// Short messages: spoken by screen readers, and shown for a while where they answer something the user did.
import { useEffect } from 'preact/hooks';
import { ApiError, type Video } from '../api';
import { duration } from '../format';
import { t } from '../i18n';
import { jobs } from '../jobs';
import { Store, useStore } from '../store';

interface Note {
  text: string;
  problem: boolean;
}

const spoken = new Store('');
const shown = new Store<Note | null>(null);
let timer: number | undefined;

export function say(text: string): void {
  // The same words again are spoken only if the text changes.
  spoken.value = spoken.value === text ? `${text}\u00a0` : text;
}

export function note(text: string, problem = false): void {
  clearTimeout(timer);
  shown.value = { text, problem };
  say(text);
  if (!problem) timer = window.setTimeout(() => (shown.value = null), 5_000);
}

export function messageOf(error: unknown): string {
  if (!(error instanceof ApiError)) return String(error);
  if (error.status === 0) return t('error.unreachable');
  const parts = [error.field && !error.message.startsWith(error.field) ? `${error.field}: ${error.message}` : error.message, error.hint];
  if (error.retryAfter > 0) parts.push(t('error.retry_after', { time: duration(error.retryAfter) }));
  return parts.filter(Boolean).join(' · ');
}

export function report(error: unknown): void {
  if (error instanceof ApiError && error.status === 401) return; // the dialog for the key is open
  note(messageOf(error), true);
}

export function shortPrompt(video: Video): string {
  const text = (video.prompt ?? video.request?.prompt ?? '')
    .replace(/^\s*\w+:\s*/, '')
    .replace(/^\[Shot 1\]\s*/, '')
    .replace(/\s+/g, ' ')
    .trim();
  return text.length > 90 ? `${text.slice(0, 88)}…` : text || video.id;
}

// What changed between two moments is said once; steps and percentages are not.
function watchJobs(): () => void {
  const states = new Map<string, string>();
  for (const video of jobs.value.byId.values()) states.set(video.id, video.status);
  let loaded = jobs.value.loaded;
  return jobs.subscribe(() => {
    for (const video of jobs.value.byId.values()) {
      const before = states.get(video.id);
      states.set(video.id, video.status);
      if (!loaded || before === undefined || before === video.status) continue;
      const prompt = shortPrompt(video);
      if (video.status === 'in_progress') say(t('job.now_running', { prompt }));
      else if (video.status === 'completed') say(t('job.now_completed', { prompt }));
      else if (video.status === 'failed') say(t('job.now_failed', { prompt, reason: video.error?.message ?? '' }));
      else if (video.status === 'cancelled') say(t('job.now_cancelled', { prompt }));
    }
    loaded = jobs.value.loaded;
  });
}

export function Announcer() {
  const text = useStore(spoken);
  const visible = useStore(shown);
  useEffect(watchJobs, []);
  return (
    <>
      <div class="spoken" role="status" aria-live="polite">
        {text}
      </div>
      {visible && (
        <div class={visible.problem ? 'note problem' : 'note'}>
          <span>{visible.text}</span>
          <button type="button" class="quiet" onClick={() => (shown.value = null)}>
            {t('app.dismiss')}
          </button>
        </div>
      )}
    </>
  );
}
