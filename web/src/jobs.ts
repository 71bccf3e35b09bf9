// All jobs the page knows, kept up to date by events, and by asking while there are none.
import { api, ApiError, videoOf, type Video } from './api';
import type { ServerEvent } from './event_parser';
import { EventFeed } from './events';
import { Store } from './store';

export interface Jobs {
  byId: ReadonlyMap<string, Video>;
  previews: ReadonlyMap<string, string>; // data: addresses of JPEG pictures
  loaded: boolean;
  more: boolean; // older ones exist
  live: boolean; // events arrive
  problem: ApiError | null; // of the last attempt to ask
}

export const jobs = new Store<Jobs>({ byId: new Map(), previews: new Map(), loaded: false, more: false, live: true, problem: null });

export const isOver = (video: Video): boolean => video.status === 'completed' || video.status === 'failed' || video.status === 'cancelled';

// Times are whole seconds: of the same second, what came to be known later is newer.
const arrivals = new Map<string, number>();
const arrival = (video: Video): number => arrivals.get(video.id) ?? 0;
const newestFirst = (a: Video, b: Video): number => b.created_at - a.created_at || arrival(b) - arrival(a);

export function running(all: Jobs): Video[] {
  const open = [...all.byId.values()].filter((video) => !isOver(video));
  const rank = (video: Video): number => (video.status === 'in_progress' ? -1 : (video.queue_position ?? 1e9));
  return open.sort((a, b) => rank(a) - rank(b) || -newestFirst(a, b));
}

export function finished(all: Jobs): Video[] {
  return [...all.byId.values()].filter(isOver).sort(newestFirst);
}

// Newest first, as lists are.
function keep(videos: Video[]): void {
  for (const video of [...videos].reverse()) if (!arrivals.has(video.id)) arrivals.set(video.id, arrivals.size + 1);
  jobs.update((now) => {
    const byId = new Map(now.byId);
    let previews = now.previews;
    for (const video of videos) {
      const known = byId.get(video.id);
      // An answer that was on its way when an event arrived must not bring the past back.
      if (known && isOver(known) && !isOver(video)) continue;
      byId.set(video.id, known ? { ...known, ...video } : video);
      if (isOver(video) && previews.has(video.id)) previews = without(previews, video.id);
    }
    return { ...now, byId, previews };
  });
}

function without<T>(map: ReadonlyMap<string, T>, key: string): Map<string, T> {
  const copy = new Map(map);
  copy.delete(key);
  return copy;
}

function forget(id: string): void {
  if (id === cursor) cursor = oldest(id)?.id ?? '';
  jobs.update((now) => ({ ...now, byId: without(now.byId, id), previews: without(now.previews, id) }));
}

const pageSize = 24;
let cursor = ''; // the last job of the pages that were loaded

const oldest = (except: string): Video | undefined =>
  [...jobs.value.byId.values()]
    .filter((video) => video.id !== except)
    .sort(newestFirst)
    .at(-1);

// The newest page; what it should hold and does not is gone.
async function refresh(): Promise<void> {
  const asked = Date.now() / 1000 - 2;
  try {
    const page = await api.list('', pageSize);
    const last = page.data.at(-1);
    const listed = new Set(page.data.map((video) => video.id));
    if (!jobs.value.loaded) cursor = last?.id ?? '';
    keep(page.data);
    jobs.update((now) => {
      const older = (video: Video): boolean => page.has_more && last !== undefined && newestFirst(last, video) < 0;
      const byId = new Map([...now.byId].filter(([id, video]) => listed.has(id) || video.created_at >= asked || older(video)));
      return { ...now, byId, loaded: true, problem: null, more: now.loaded && page.has_more ? now.more : page.has_more };
    });
  } catch (error) {
    if (error instanceof ApiError) jobs.update((now) => ({ ...now, problem: error }));
  }
}

export async function loadMore(): Promise<void> {
  const page = await api.list(cursor, pageSize);
  cursor = page.data.at(-1)?.id ?? cursor;
  keep(page.data);
  jobs.update((now) => ({ ...now, more: page.has_more }));
}

export async function load(id: string): Promise<Video> {
  const video = await api.get(id);
  keep([video]);
  return video;
}

function onEvent(event: ServerEvent): void {
  const data = event.data as Partial<Video> & { id: string; fraction?: number; data?: string };
  if (typeof data !== 'object' || data === null || typeof data.id !== 'string') return;
  if (event.name === 'state') {
    keep([videoOf(data)]);
    moveQueue();
  } else if (event.name === 'progress') onProgress(data);
  else if (event.name === 'preview' && data.data) {
    const image = data.data;
    jobs.update((now) => {
      const known = now.byId.get(data.id);
      if (!known || isOver(known)) return now;
      return { ...now, previews: new Map(now.previews).set(data.id, `data:image/jpeg;base64,${image}`) };
    });
  } else if (event.name === 'removed') forget(data.id);
}

function onProgress(data: Partial<Video> & { id: string; fraction?: number }): void {
  const known = jobs.value.byId.get(data.id);
  if (!known || isOver(known)) return;
  const { fraction, ...rest } = data;
  const progress = fraction === undefined ? known.progress : Math.floor(100 * fraction);
  keep([videoOf({ ...known, status: 'in_progress', progress, ...rest })]);
}

let queueTimer: number | undefined;

// When a job leaves the queue all others move up; their places are asked for once things are calm.
function moveQueue(): void {
  clearTimeout(queueTimer);
  if (running(jobs.value).some((video) => video.status === 'queued')) queueTimer = window.setTimeout(() => void refresh(), 400);
}

export const actions = {
  async create(body: FormData | object): Promise<Video> {
    const video = await api.create(body);
    keep([video]);
    return video;
  },
  async cancel(id: string): Promise<void> {
    keep([await api.cancel(id)]);
  },
  async retry(id: string): Promise<Video> {
    const video = await api.retry(id);
    keep([video]);
    return video;
  },
  async remove(id: string): Promise<void> {
    await api.remove(id);
    forget(id);
  },
};

const pollMs = 2_000;
const hiddenMs = 60_000;

// Browsers allow a few connections to one server, for all tabs together: those that nobody looks at give theirs back.
function whileSeen(feed: EventFeed): void {
  let timer: number | undefined;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (document.hidden) timer = window.setTimeout(() => feed.pause(), hiddenMs);
    else feed.resume();
  });
}

// Starts listening; returns what connects anew.
export function follow(): () => void {
  let timer: number | undefined;
  const poll = (): void => {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      void (document.hidden ? Promise.resolve() : refresh()).then(() =>
        jobs.value.live || jobs.value.problem?.status === 401 ? undefined : poll(),
      );
    }, pollMs);
  };
  void refresh();
  const feed = new EventFeed('/v1/events', {
    event: onEvent,
    connected(live) {
      const was = jobs.value.live;
      jobs.update((now) => ({ ...now, live }));
      if (live) {
        clearTimeout(timer);
        if (!was) void refresh();
      } else if (was) poll();
    },
  });
  const again = (): void => {
    feed.restart();
    void refresh();
  };
  window.addEventListener('online', again);
  whileSeen(feed);
  return again;
}
