// One job that is over, or a running one that somebody has the address of: player, decided values, what to do with it.
import { Fragment } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, contentPath, type Video } from '../api';
import { reuse } from '../draft';
import { duration, time } from '../format';
import { locale, stageName, t } from '../i18n';
import { actions, isOver, jobs, load } from '../jobs';
import { closeClip } from '../router';
import { useStore } from '../store';
import { messageOf, note, report, shortPrompt } from './announcer';
import { ConfirmDelete, Dialog } from './dialogs';
import { useMedia } from './picture';

function Player({ video, output }: { video: Video; output: number }) {
  const url = useMedia(contentPath(video.id, output));
  const [broken, setBroken] = useState(false);
  if (url === null || broken) return <p class="finding error">{t('clip.unplayable')}</p>;
  return (
    <>
      <video
        class="player"
        src={url || undefined}
        controls
        loop
        playsInline
        aria-label={t('clip.video', { prompt: shortPrompt(video) })}
        onError={() => url && setBroken(true)}
      />
      <a
        class="button primary"
        href={url || contentPath(video.id, output)}
        download={`${video.id}${output > 0 ? `-${output + 1}` : ''}.mp4`}
      >
        {t('clip.download')}
      </a>
    </>
  );
}

function Outputs({ video }: { video: Video }) {
  const count = video.num_outputs ?? 1;
  return (
    <>
      {Array.from({ length: count }, (_, i) => (
        <div key={i} class="output">
          {count > 1 && <h3>{t('clip.output', { number: i + 1, count })}</h3>}
          <Player video={video} output={i} />
        </div>
      ))}
    </>
  );
}

function Failure({ video }: { video: Video }) {
  const error = video.error;
  if (video.status === 'cancelled' || !error) return <p class="muted">{t(`job.${video.status}`)}</p>;
  return (
    <div class="finding error">
      <p>
        <strong>
          {t('job.failed')}
          {error.stage ? ` (${stageName(error.stage)})` : ''}:
        </strong>{' '}
        {error.field ? `${error.field}: ` : ''}
        {error.message}
      </p>
      {error.hint && <p>{error.hint}</p>}
      {error.last_words && (
        <details>
          <summary>{t('job.last_words')}</summary>
          <pre tabIndex={0}>{error.last_words}</pre>
        </details>
      )}
    </div>
  );
}

function Facts({ video }: { video: Video }) {
  const seeds = video.outputs?.length ? video.outputs.map((output) => output.seed) : video.seed === undefined ? [] : [video.seed];
  const rows: [string, string | undefined][] = [
    [t('clip.size'), video.size?.replace('x', '×')],
    [t('clip.length'), video.seconds ? `${Number(video.seconds).toFixed(2)} s` : undefined],
    [t('clip.frames'), video.num_frames?.toString()],
    [t('clip.steps'), video.num_inference_steps?.toString()],
    [t('clip.seed'), seeds.join(', ')],
    [t('clip.shifts'), video.flow_shift === undefined ? undefined : `${video.flow_shift} / ${video.audio_flow_shift ?? ''}`],
    [t('clip.made'), time(video.created_at, locale)],
    [t('clip.kept_until'), video.expires_at ? time(video.expires_at, locale) : undefined],
    [t('clip.peak'), video.peak_memory_mb ? `${Math.round(video.peak_memory_mb)} MB` : undefined],
  ];
  return (
    <dl>
      {rows
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </Fragment>
        ))}
    </dl>
  );
}

function More({ video }: { video: Video }) {
  const timings = video.timings ?? [];
  const adjustments = video.adjustments ?? [];
  const warnings = video.warnings ?? [];
  return (
    <>
      {(adjustments.length > 0 || warnings.length > 0) && (
        <ul>
          {adjustments.map((a) => (
            <li key={a.field} class="finding advice">
              {t('plan.adjusted', { field: a.field, from: a.from, to: a.to, reason: a.reason })}
            </li>
          ))}
          {warnings.map((warning) => (
            <li key={warning} class="finding warning">
              {warning}
            </li>
          ))}
        </ul>
      )}
      {timings.length > 0 && (
        <table>
          <caption>{t('clip.timings')}</caption>
          <tbody>
            {timings.map((timing) => (
              <tr key={timing.stage}>
                <th scope="row">{stageName(timing.stage)}</th>
                <td class="number">{duration(timing.seconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

function Actions({ video, onDelete }: { video: Video; onDelete: () => void }) {
  const retry = (): void => {
    actions.retry(video.id).then(() => {
      closeClip();
      note(t('create.sent'));
    }, report);
  };
  const use = (): void => {
    reuse({ prompt: video.prompt, seed: video.seed, ...video.request });
    closeClip();
    note(t('create.reused'));
    requestAnimationFrame(() => document.getElementById('prompt')?.focus());
  };
  return (
    <div class="row wrap">
      <button type="button" onClick={use}>
        {t('clip.reuse')}
      </button>
      {(video.status === 'failed' || video.status === 'cancelled') && (
        <button type="button" class="primary" onClick={retry}>
          {t('job.retry')}
        </button>
      )}
      {!isOver(video) && (
        <button type="button" onClick={() => void actions.cancel(video.id).catch(report)}>
          {t('job.cancel')}
        </button>
      )}
      <button type="button" class="danger" onClick={onDelete}>
        {t('job.delete')}
      </button>
    </div>
  );
}

export function ClipDialog({ id }: { id: string }) {
  const video = useStore(jobs).byId.get(id);
  const [problem, setProblem] = useState('');
  const [deleting, setDeleting] = useState(false);
  const over = video ? isOver(video) : false;
  // The list may be short on details; they are asked for once, and again when the job is over.
  useEffect(() => {
    load(id).catch((error: unknown) =>
      setProblem(error instanceof ApiError && error.status === 404 ? t('clip.missing') : messageOf(error)),
    );
  }, [id, over]);

  const remove = (): void => {
    setDeleting(false);
    closeClip();
    actions.remove(id).catch(report);
  };
  return (
    <Dialog title={t('clip.title')} wide onClose={closeClip}>
      {!video && <p class="muted">{problem || t('clips.loading')}</p>}
      {video && (
        <>
          <div class="clip">
            <div class="clip-media">{video.status === 'completed' ? <Outputs video={video} /> : <Failure video={video} />}</div>
            <div class="clip-text">
              <p class="full-prompt">{video.prompt}</p>
              <Actions video={video} onDelete={() => setDeleting(true)} />
              <h3>{t('clip.details')}</h3>
              <Facts video={video} />
              <More video={video} />
            </div>
          </div>
          {deleting && <ConfirmDelete video={video} onDelete={remove} onKeep={() => setDeleting(false)} />}
        </>
      )}
    </Dialog>
  );
}
