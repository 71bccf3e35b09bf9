// A thumbnail of a finished clip, with a key if the server wants one.
import { useEffect, useState } from 'preact/hooks';
import { mediaSource, thumbnailPath } from '../api';

// The address by which elements of the page reach a file of the server; empty until it is known, null when there is none.
export function useMedia(path: string): string | null {
  const [url, setUrl] = useState<string | null>('');
  useEffect(() => {
    const abort = new AbortController();
    let release = (): void => undefined;
    setUrl('');
    mediaSource(path, abort.signal).then(
      (source) => {
        if (abort.signal.aborted) source.release();
        else {
          release = source.release;
          setUrl(source.url);
        }
      },
      () => {
        if (!abort.signal.aborted) setUrl(null);
      },
    );
    return () => {
      abort.abort();
      release();
    };
  }, [path]);
  return url;
}

export function Thumbnail({ id }: { id: string }) {
  const url = useMedia(thumbnailPath(id));
  const [broken, setBroken] = useState(false);
  return <div class="thumbnail">{url && !broken && <img src={url} alt="" loading="lazy" onError={() => setBroken(true)} />}</div>;
}
