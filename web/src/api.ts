// The server's interface as this page uses it: types, and one function per call.

export type Status = 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled';

export interface VideoError {
  code?: string;
  message: string;
  field?: string;
  hint?: string;
  stage?: string;
  last_words?: string;
}

export interface Adjustment {
  field: string;
  from: string;
  to: string;
  reason: string;
}

export interface Timing {
  stage: string;
  seconds: number;
}

export interface Lora {
  name: string;
  scale: number;
  alpha?: number;
}

export interface Reference {
  type: 'image' | 'video' | 'audio';
  uri: string;
  sound?: string; // of a video: this file's in place of its own
  silent?: boolean; // of a video: its own sound is left out
}

export interface Retake {
  video: string;
  frames: [number, number][];
  seconds: [number, number][];
}

// What is sent, and what a job says it was asked for. Files are named "form:PART" of the same form, or "tritium:JOB/INPUT" of a job.
export interface VideoRequest {
  prompt?: string | undefined;
  width?: number | undefined;
  height?: number | undefined;
  aspect_ratio?: string | undefined;
  short_edge?: number | undefined;
  seconds?: number | undefined;
  num_frames?: number | undefined;
  num_inference_steps?: number | undefined;
  seed?: number | undefined;
  flow_shift?: number | undefined;
  audio_flow_shift?: number | undefined;
  num_outputs_per_prompt?: number | undefined;
  lora?: Lora[] | undefined;
  fit?: string | undefined;
  first_frame?: string | undefined;
  last_frame?: string | undefined;
  references?: Reference[] | undefined;
  retake?: Retake | undefined;
  sound_for?: string | undefined;
  video_for?: string | undefined;
  noise?: string | undefined;
  force?: boolean | undefined;
  reference_size?: string | undefined;
}

export interface Video {
  id: string;
  model?: string;
  status: Status;
  progress: number;
  created_at: number;
  started_at?: number | null;
  completed_at?: number | null;
  expires_at?: number | null;
  size?: string;
  seconds?: string;
  prompt?: string;
  error?: VideoError | null;
  stage?: string;
  step?: number;
  of?: number;
  eta_seconds?: number | null;
  queue_position?: number | null;
  cancel_requested?: boolean;
  attempt?: number;
  max_attempts?: number;
  seed?: number;
  outputs?: { seed: number }[];
  num_outputs?: number;
  output?: number; // which one is made now, from 0
  width?: number;
  height?: number;
  num_frames?: number;
  num_inference_steps?: number;
  flow_shift?: number;
  audio_flow_shift?: number;
  adjustments?: Adjustment[];
  warnings?: string[];
  timings?: Timing[];
  peak_memory_mb?: number | null;
  request?: VideoRequest;
}

export interface VideoList {
  data: Video[];
  has_more: boolean;
  last_id?: string | null;
}

export interface Plan {
  mode: string;
  width: number;
  height: number;
  frames: number;
  seconds: number;
  steps: number;
  seed: number;
  video_shift: number;
  audio_shift: number;
  text_tokens: number;
  rows: number;
  adjustments: Adjustment[];
  notes?: string[];
  warnings: string[];
  stages: { stage: string; device: string; seconds: number; load_seconds: number }[];
  memories: { memory: string; peak_bytes: number; budget_bytes: number }[];
  expected_seconds: number;
  peak_bytes: number;
  available_bytes: number;
}

export interface Model {
  id: string;
  partition?: string;
  defaults?: { width?: number; height?: number; frames?: number; steps?: number; video_shift?: number; audio_shift?: number };
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly field = '',
    readonly hint = '',
    readonly code = '',
    readonly retryAfter = 0,
  ) {
    super(message);
  }
}

const keyName = 'tritium.key';
let key = sessionStorage.getItem(keyName) ?? '';
const keyListeners = new Set<() => void>();

export function apiKey(): string {
  return key;
}

export function setApiKey(value: string): void {
  key = value.trim();
  if (key) sessionStorage.setItem(keyName, key);
  else sessionStorage.removeItem(keyName);
}

// Called when the server wants a key, or another one.
export function onUnauthorized(listener: () => void): () => void {
  keyListeners.add(listener);
  return () => keyListeners.delete(listener);
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

async function errorOf(response: Response): Promise<ApiError> {
  const retryAfter = Number(response.headers.get('retry-after') ?? 0) || 0;
  const body: unknown = await response.json().catch(() => null);
  const outer = (body ?? {}) as Record<string, unknown>;
  const inner = (typeof outer['error'] === 'object' && outer['error'] ? outer['error'] : outer) as Record<string, unknown>;
  const message = text(inner['message']) || text(outer['detail']) || `${response.status} ${response.statusText}`.trim();
  return new ApiError(
    response.status,
    message,
    text(inner['param']) || text(inner['field']),
    text(inner['hint']),
    text(inner['code']) || text(inner['type']),
    retryAfter,
  );
}

// Rejects with ApiError: status 0 when the server cannot be reached.
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key) headers.set('authorization', `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, '');
  }
  if (response.ok) return response;
  const failure = await errorOf(response);
  if (response.status === 401) for (const listener of keyListeners) listener();
  throw failure;
}

async function json<T>(path: string, init?: RequestInit): Promise<T> {
  return (await (await call(path, init)).json()) as T;
}

// As the server writes a job: clients that know no other end are told "failed" of cancelled ones, and timings are one object.
export function videoOf(raw: unknown): Video {
  const video = raw as Omit<Video, 'timings'> & { state?: string; timings?: Record<string, number> | Timing[] };
  const status: Status = video.state === 'cancelled' ? 'cancelled' : video.status;
  const { timings, ...rest } = video;
  if (timings === undefined) return { ...rest, status };
  const list = Array.isArray(timings) ? timings : Object.entries(timings).map(([stage, seconds]) => ({ stage, seconds }));
  return { ...rest, status, timings: list };
}

const video = async (path: string, init?: RequestInit): Promise<Video> => videoOf(await json<unknown>(path, init));

function post(body: FormData | object | undefined): RequestInit {
  if (body instanceof FormData) return { method: 'POST', body };
  if (body === undefined) return { method: 'POST' };
  return { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } };
}

const id = encodeURIComponent;

export const api = {
  loras: () => json<{ data: { id: string }[] }>('/v1/loras'),
  models: () => json<{ data: Model[] }>('/v1/models'),
  plan: (body: FormData | object, signal: AbortSignal) => json<Plan>('/v1/videos/plan', { ...post(body), signal }),
  create: (body: FormData | object) => video('/v1/videos', post(body)),
  async list(after = '', limit = 24): Promise<VideoList> {
    const page = await json<VideoList>(`/v1/videos?limit=${limit}${after ? `&after=${id(after)}` : ''}`);
    return { ...page, data: page.data.map(videoOf) };
  },
  get: (job: string) => video(`/v1/videos/${id(job)}`),
  cancel: (job: string) => video(`/v1/videos/${id(job)}/cancel`, post(undefined)),
  retry: (job: string) => video(`/v1/videos/${id(job)}/retry`, post(undefined)),
  remove: (job: string) => json<unknown>(`/v1/videos/${id(job)}`, { method: 'DELETE' }),
};

export const contentPath = (job: string, output = 0): string => `/v1/videos/${id(job)}/content${output > 0 ? `?variant=${output}` : ''}`;
export const thumbnailPath = (job: string): string => `/v1/videos/${id(job)}/content?variant=thumbnail`;

// Where an input of a job can be seen, of its "tritium:JOB/INPUT".
export function inputPath(uri: string): string {
  const [, job = '', input = ''] = /^tritium:([^/]+)\/(.+)$/.exec(uri) ?? [];
  return `/v1/videos/${id(job)}/inputs/${input}`;
}

// An address for <img>, <video> and downloads. Elements of the page cannot send a key, so with one the content is fetched first;
// release() lets it go again.
export async function mediaSource(path: string, signal: AbortSignal): Promise<{ url: string; release: () => void }> {
  if (!key) return { url: path, release: () => undefined };
  const url = URL.createObjectURL(await (await call(path, { signal })).blob());
  return { url, release: () => URL.revokeObjectURL(url) };
}
