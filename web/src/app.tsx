import { useEffect, useRef, useState } from 'preact/hooks';
import { api, apiKey, onUnauthorized, type Model } from './api';
import { t } from './i18n';
import iconAddress from './icon.svg';
import { follow, jobs, running } from './jobs';
import { route } from './router';
import { useStore } from './store';
import { Announcer } from './ui/announcer';
import { ClipDialog } from './ui/clip_dialog';
import { Composer } from './ui/composer';
import { KeyDialog } from './ui/dialogs';
import { Gallery } from './ui/gallery';
import { Queue } from './ui/queue';

function Connection({ onKey }: { onKey: () => void }) {
  const { live, problem } = useStore(jobs);
  if (problem?.status === 401)
    return (
      <p class="banner problem">
        {t('key.text')}{' '}
        <button type="button" onClick={onKey}>
          {t('app.key')}
        </button>
      </p>
    );
  if (problem?.status === 0) return <p class="banner problem">{t('app.offline')}</p>;
  if (!live && problem === null) return <p class="banner">{t('app.polling')}</p>;
  return null;
}

function Navigation() {
  const open = running(useStore(jobs)).length;
  return (
    <nav aria-label={t('nav.label')}>
      <a href="#create">{t('nav.create')}</a>
      <a href="#queue">
        {t('nav.queue')}
        {open > 0 && <span class="count">{open}</span>}
      </a>
      <a href="#clips">{t('nav.clips')}</a>
    </nav>
  );
}

// Progress where it is seen from other tabs.
function useTitle(): void {
  const first = running(useStore(jobs)).find((video) => video.status === 'in_progress');
  const title = first ? `${first.progress} % · Tritium` : 'Tritium';
  useEffect(() => {
    document.title = title;
  }, [title]);
}

export function App() {
  const [model, setModel] = useState<Model>();
  const [askKey, setAskKey] = useState<'no' | 'asked' | 'refused'>('no');
  const again = useRef<() => void>(() => undefined);
  const declined = useRef(false); // then only the banner reminds
  const { clip } = useStore(route);

  const askModel = (): void => {
    api.models().then(
      ({ data }) => setModel(data[0]),
      () => undefined,
    );
  };
  useEffect(() => onUnauthorized(() => setAskKey((now) => (now === 'no' && !declined.current ? 'refused' : now))), []);
  useEffect(() => {
    askModel();
    again.current = follow();
  }, []);
  useTitle();
  const keyChosen = (changed: boolean): void => {
    setAskKey('no');
    declined.current = !changed;
    if (!changed) return;
    askModel();
    again.current();
  };

  return (
    <>
      <a class="skip" href="#prompt">
        {t('app.skip')}
      </a>
      <header class="top">
        <h1>
          <img src={iconAddress} alt="" width="24" height="24" /> Tritium
        </h1>
        {model && <span class="muted small model">{t('app.model', { model: model.id })}</span>}
        <Navigation />
        {apiKey() !== '' && (
          <button type="button" class="quiet" onClick={() => setAskKey('asked')}>
            {t('app.key')}
          </button>
        )}
      </header>
      <Connection onKey={() => setAskKey('asked')} />
      <main>
        <Composer model={model} />
        <div class="results">
          <Queue />
          <Gallery />
        </div>
      </main>
      {clip !== null && <ClipDialog key={clip} id={clip} />}
      {askKey !== 'no' && <KeyDialog refused={askKey === 'refused'} onClose={keyChosen} />}
      <Announcer />
    </>
  );
}
