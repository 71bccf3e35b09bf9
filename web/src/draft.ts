// What is being put together: everything the form holds, and the request it becomes.
import type { VideoRequest } from './api';
import { earlierInput, type FileKind, type InputFile } from './media';
import { Store } from './store';

export type Mode = 'text' | 'keyframes' | 'references' | 'retake' | 'sound_for_video' | 'video_for_sound';
export const modes: readonly Mode[] = ['text', 'keyframes', 'references', 'retake', 'sound_for_video', 'video_for_sound'];

// Numbers are kept as typed; an empty one leaves the value to the model.
export interface Settings {
  size: string; // "", "auto", "exact" or a ratio such as "16:9"
  width: string;
  height: string;
  shortEdge: string; // with a ratio
  seconds: string;
  steps: string;
  seed: string;
  videoShift: string;
  audioShift: string;
  outputs: string;
  fit: string;
  loras: { name: string; scale: string; alpha?: { alpha?: number } }[];
}

export interface Span {
  from: string;
  to: string;
}

export interface Draft {
  prompt: string;
  mode: Mode;
  first: InputFile | null;
  last: InputFile | null;
  references: InputFile[];
  source: InputFile | null; // of a retake, of sound for a video, of a video for a sound
  retakePictures: Span;
  retakeSound: Span;
  settings: Settings;
  kept: Kept; // of the job whose settings these are
}

export type Kept = Pick<VideoRequest, 'noise' | 'force' | 'reference_size'>;

const noSettings: Settings = {
  size: '',
  width: '',
  height: '',
  shortEdge: '',
  seconds: '',
  steps: '',
  seed: '',
  videoShift: '',
  audioShift: '',
  outputs: '1',
  fit: 'cover',
  loras: [],
};

const noSpan: Span = { from: '', to: '' };

export const emptyDraft: Draft = {
  prompt: '',
  mode: 'text',
  first: null,
  last: null,
  references: [],
  source: null,
  retakePictures: noSpan,
  retakeSound: noSpan,
  settings: noSettings,
  kept: {},
};

const storageName = 'tritium.draft';

function restore(): Draft {
  try {
    const kept = JSON.parse(localStorage.getItem(storageName) ?? 'null') as { prompt?: unknown; settings?: Partial<Settings> } | null;
    if (!kept) return emptyDraft;
    return { ...emptyDraft, prompt: typeof kept.prompt === 'string' ? kept.prompt : '', settings: { ...noSettings, ...kept.settings } };
  } catch {
    return emptyDraft;
  }
}

export const draft = new Store<Draft>(restore());

// The prompt that a template, other settings or a new start took the place of, until somebody writes.
export const replaced = new Store<string | null>(null);

export function keepForUndo(): void {
  if (draft.value.prompt.trim()) replaced.value = draft.value.prompt;
}

export function startOver(): void {
  keepForUndo();
  draft.value = emptyDraft;
}

// Text and settings outlive the tab; files cannot.
let saveTimer: number | undefined;
draft.subscribe(() => {
  clearTimeout(saveTimer);
  saveTimer = window.setTimeout(() => {
    const { prompt, settings } = draft.value;
    localStorage.setItem(storageName, JSON.stringify({ prompt, settings }));
  }, 300);
});

export function change(part: Partial<Draft>): void {
  draft.update((now) => ({ ...now, ...part }));
}

export function changeSettings(part: Partial<Settings>): void {
  draft.update((now) => ({ ...now, settings: { ...now.settings, ...part } }));
}

export function filesOf(now: Draft): InputFile[] {
  if (now.mode === 'keyframes') return [now.first, now.last].filter((file) => file !== null);
  if (now.mode === 'references') return now.references;
  if (now.mode === 'text') return [];
  return now.source ? [now.source] : [];
}

// The labels of references, in the model's counting: each kind from 1 in the order of the list, a video's sound before the video.
export function labelsOf(references: InputFile[]): string[][] {
  let pictures = 0;
  let videos = 0;
  let audios = 0;
  return references.map((file) => {
    if (file.kind === 'image') return [`<Picture ${++pictures}>`];
    if (file.kind === 'audio') return [`<Audio ${++audios}>`];
    const labels = [`<Video ${++videos}>`];
    if (file.sound) labels.push(`<Audio ${++audios}>`);
    return labels;
  });
}

const number = (typed: string): number | undefined => (typed.trim() === '' || !Number.isFinite(Number(typed)) ? undefined : Number(typed));

// The values that need no file; undefined ones are left out when this is sent.
export function requestOf(now: Draft): VideoRequest {
  const s = now.settings;
  const exact = s.size === 'exact';
  const shaped = s.size !== '' && !exact;
  const loras = s.loras.filter((lora) => lora.name.trim());
  const outputs = number(s.outputs) ?? 1;
  return {
    prompt: now.prompt,
    width: exact ? number(s.width) : undefined,
    height: exact ? number(s.height) : undefined,
    aspect_ratio: shaped ? s.size : undefined,
    short_edge: shaped ? number(s.shortEdge) : undefined,
    seconds: number(s.seconds),
    num_inference_steps: number(s.steps),
    seed: number(s.seed),
    flow_shift: number(s.videoShift),
    audio_flow_shift: number(s.audioShift),
    num_outputs_per_prompt: outputs > 1 ? outputs : undefined,
    lora:
      loras.length === 0 ? undefined : loras.map(({ name, scale, alpha }) => ({ name: name.trim(), scale: number(scale) ?? 1, ...alpha })),
    fit: hasFit(now.mode) ? s.fit : undefined,
    ...now.kept,
  };
}

export const hasFit = (mode: Mode): boolean => mode === 'keyframes' || mode === 'retake';

const typed = (value: number | undefined): string => (value === undefined ? '' : String(value));
const earlier = (uri: string | undefined, kind: FileKind): InputFile | null => (uri ? earlierInput(uri, kind) : null);

function modeOf(request: VideoRequest): Mode {
  if (request.first_frame || request.last_frame) return 'keyframes';
  if (request.references?.length) return 'references';
  if (request.retake) return 'retake';
  if (request.sound_for) return 'sound_for_video';
  return request.video_for ? 'video_for_sound' : 'text';
}

function settingsOf(request: VideoRequest): Settings {
  const exact = request.width !== undefined && request.height !== undefined;
  // Rounded down: a length is raised to the next possible one, and more would be one too many.
  const seconds = request.num_frames === undefined ? request.seconds : Math.floor((1000 * request.num_frames) / 24) / 1000;
  return {
    size: exact ? 'exact' : (request.aspect_ratio ?? ''),
    width: typed(request.width),
    height: typed(request.height),
    shortEdge: typed(request.short_edge),
    seconds: typed(seconds),
    steps: typed(request.num_inference_steps),
    seed: typed(request.seed),
    videoShift: typed(request.flow_shift),
    audioShift: typed(request.audio_flow_shift),
    outputs: String(request.num_outputs_per_prompt ?? 1),
    fit: request.fit ?? 'cover',
    loras: (request.lora ?? []).map(({ name, scale, alpha }) => ({
      name,
      scale: String(scale),
      alpha: alpha === undefined ? {} : { alpha },
    })),
  };
}

// What the form has no field for and the model does not do by itself.
function keptOf(request: VideoRequest): Kept {
  return {
    ...(request.noise && request.noise !== 'diffsynth' ? { noise: request.noise } : {}),
    ...(request.force ? { force: true } : {}),
    ...(request.reference_size && request.reference_size !== 'match' ? { reference_size: request.reference_size } : {}),
  };
}

function span(range: [number, number] | undefined, unit: number): Span {
  return range ? { from: String(Number((range[0] / unit).toFixed(3))), to: String(Number((range[1] / unit).toFixed(3))) } : noSpan;
}

// Fills the form with what a job was asked for. Its files stay on the server and are used from there.
export function reuse(request: VideoRequest): void {
  keepForUndo();
  const source = earlier(request.retake?.video ?? request.sound_for, 'video') ?? earlier(request.video_for, 'audio');
  draft.value = {
    ...emptyDraft,
    prompt: request.prompt ?? '',
    mode: modeOf(request),
    first: earlier(request.first_frame, 'image'),
    last: earlier(request.last_frame, 'image'),
    references: (request.references ?? []).map((reference) => ({
      ...earlierInput(reference.uri, reference.type),
      sound: reference.type === 'video' && !reference.silent,
      ...(reference.sound ? { soundUri: reference.sound } : {}),
    })),
    source,
    retakePictures: span(request.retake?.frames[0], 24),
    retakeSound: span(request.retake?.seconds[0], 1),
    settings: settingsOf(request),
    kept: keptOf(request),
  };
}
