// What is over: clips, and jobs that became none.
import { useState } from 'preact/hooks';
import type { Video } from '../api';
import { time } from '../format';
import { locale, t } from '../i18n';
import { finished, jobs, loadMore } from '../jobs';
import { openClip } from '../router';
import { useStore } from '../store';
import { report, shortPrompt } from './announcer';
import { Thumbnail } from './picture';

function Problem({ video }: { video: Video }) {
  return (
    <div class="thumbnail problem">
      <span>{video.status === 'cancelled' ? t('job.cancelled') : (video.error?.message ?? t('job.failed'))}</span>
    </div>
  );
}

function Card({ video }: { video: Video }) {
  const prompt = shortPrompt(video);
  const done = video.status === 'completed';
  return (
    <li class="card" data-job={video.id} data-status={video.status}>
      <button
        type="button"
        class="card-open"
        aria-label={`${t('job.open_named', { prompt })} · ${t(`job.${video.status}`)}`}
        onClick={() => openClip(video.id)}
      >
        {done ? <Thumbnail id={video.id} /> : <Problem video={video} />}
        <span class="card-prompt">{prompt}</span>
        <span class="small muted">
          {done ? '' : `${t(`job.${video.status}`)} · `}
          {time(video.created_at, locale)}
        </span>
      </button>
    </li>
  );
}

export function Gallery() {
  const all = useStore(jobs);
  const [loading, setLoading] = useState(false);
  const over = finished(all);
  const more = (): void => {
    setLoading(true);
    loadMore()
      .catch(report)
      .finally(() => setLoading(false));
  };
  return (
    <section id="clips" class="panel" aria-labelledby="clips-title">
      <h2 id="clips-title" tabIndex={-1}>
        {t('clips.title')}
      </h2>
      {over.length === 0 ? (
        <p class="muted">{all.loaded ? t('clips.empty') : t('clips.loading')}</p>
      ) : (
        <ul class="cards">
          {over.map((video) => (
            <Card key={video.id} video={video} />
          ))}
        </ul>
      )}
      {all.more && (
        <div class="row center">
          <button type="button" disabled={loading} onClick={more}>
            {loading ? t('clips.loading') : t('clips.more')}
          </button>
        </div>
      )}
    </section>
  );
}
