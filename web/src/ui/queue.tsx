// Jobs that wait or run.
import { useEffect, useState } from 'preact/hooks';
import type { Video } from '../api';
import { duration } from '../format';
import { stageName, t } from '../i18n';
import { actions, jobs, running } from '../jobs';
import { useStore } from '../store';
import { report, shortPrompt } from './announcer';

function stateOf(video: Video): string {
  if (video.cancel_requested) return t('job.cancelling');
  if (video.status !== 'queued') return t('job.in_progress');
  return video.queue_position ? t('job.queued_behind', { count: video.queue_position }) : t('job.queued');
}

// Counts down between the server's estimates.
function Eta({ seconds }: { seconds: number }) {
  const [left, setLeft] = useState(seconds);
  useEffect(() => {
    setLeft(seconds);
    const timer = setInterval(() => setLeft((now) => Math.max(0, now - 1)), 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return <span>{t('job.eta', { time: duration(left < 10 ? Math.ceil(left) : left).replace('.0 ', ' ') })}</span>;
}

function Doing({ video }: { video: Video }) {
  const parts = [];
  if (video.stage) {
    const stage = stageName(video.stage);
    parts.push(video.of ? t('job.step', { stage, step: video.step ?? 0, of: video.of }) : stage);
  }
  const count = video.num_outputs ?? 1;
  if (count > 1 && video.status === 'in_progress') parts.unshift(t('clip.output', { number: (video.output ?? 0) + 1, count }));
  if ((video.attempt ?? 1) > 1) parts.push(t('job.attempt', { attempt: video.attempt ?? 1, of: video.max_attempts ?? video.attempt ?? 1 }));
  return (
    <p class="small muted row wrap">
      <span>{[stateOf(video), ...parts].join(' · ')}</span>
      {video.status === 'in_progress' && typeof video.eta_seconds === 'number' && video.eta_seconds >= 0 && (
        <Eta seconds={video.eta_seconds} />
      )}
    </p>
  );
}

function JobCard({ video, preview }: { video: Video; preview: string | undefined }) {
  const [busy, setBusy] = useState(false);
  const prompt = shortPrompt(video);
  const cancel = (): void => {
    setBusy(true);
    actions
      .cancel(video.id)
      .catch(report)
      .finally(() => setBusy(false));
  };
  return (
    <li class="job" data-job={video.id} data-status={video.status}>
      <div class="thumbnail">
        {preview ? <img src={preview} alt={t('job.preview')} /> : <span class={video.status === 'in_progress' ? 'pulse' : ''} />}
      </div>
      <div class="job-text">
        <p class="job-prompt" title={video.prompt}>
          {prompt}
        </p>
        <progress max={100} value={video.status === 'queued' ? 0 : video.progress} aria-label={t('job.progress', { prompt })} />
        <Doing video={video} />
      </div>
      <button
        type="button"
        disabled={busy || video.cancel_requested === true}
        aria-label={t('job.cancel_named', { prompt })}
        onClick={cancel}
      >
        {t('job.cancel')}
      </button>
    </li>
  );
}

export function Queue() {
  const all = useStore(jobs);
  const open = running(all);
  return (
    <section id="queue" class="panel" aria-labelledby="queue-title">
      <h2 id="queue-title" tabIndex={-1}>
        {t('queue.title')}
        {open.length > 0 && <span class="count">{open.length}</span>}
      </h2>
      {open.length === 0 ? (
        <p class="muted">{t('queue.empty')}</p>
      ) : (
        <ul class="jobs">
          {open.map((video) => (
            <JobCard key={video.id} video={video} preview={all.previews.get(video.id)} />
          ))}
        </ul>
      )}
    </section>
  );
}
