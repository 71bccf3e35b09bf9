// Files that people bring: what they are, and what can be seen of them before they are sent.
import { inputPath } from './api';

export type FileKind = 'image' | 'video' | 'audio';

export interface InputFile {
  id: number;
  kind: FileKind;
  name: string;
  file: File | null; // null: an input of an earlier job, on the server
  uri: string; // of that input
  url: string; // for a thumbnail
  sound: boolean; // of a video: its sound is used
  soundUri?: string; // of a video of an earlier job: that sound in place of its own
}

const endings: Record<string, FileKind> = {
  png: 'image',
  jpg: 'image',
  jpeg: 'image',
  webp: 'image',
  gif: 'image',
  mp4: 'video',
  mov: 'video',
  mkv: 'video',
  webm: 'video',
  avi: 'video',
  wav: 'audio',
  mp3: 'audio',
  flac: 'audio',
  m4a: 'audio',
  ogg: 'audio',
  opus: 'audio',
  aac: 'audio',
};

export const accepts: Record<FileKind, string> = { image: 'image/*', video: 'video/*,.mkv', audio: 'audio/*' };

export function kindOf(file: File): FileKind | null {
  const type = /^(image|video|audio)\//.exec(file.type)?.[1];
  if (type) return type as FileKind;
  return endings[file.name.split('.').pop()?.toLowerCase() ?? ''] ?? null;
}

let nextId = 1;

export function inputOf(file: File, kind: FileKind): InputFile {
  return { id: nextId++, kind, name: file.name, file, uri: '', url: URL.createObjectURL(file), sound: kind === 'video' };
}

export function earlierInput(uri: string, kind: FileKind): InputFile {
  return { id: nextId++, kind, name: uri.replace(/^tritium:/, ''), file: null, uri, url: inputPath(uri), sound: kind === 'video' };
}

export function release(input: InputFile | null): void {
  if (input?.file) URL.revokeObjectURL(input.url);
}

const largestLookedInto = 64 * 1024 * 1024;

// Whether a video brings sound: browsers tell only by decoding it. When they cannot say, it is taken to have one.
export async function hasSound(file: File): Promise<boolean> {
  if (file.size > largestLookedInto || !('OfflineAudioContext' in window)) return true;
  try {
    const context = new OfflineAudioContext(1, 1, 8000);
    return (await context.decodeAudioData(await file.arrayBuffer())).length > 0;
  } catch {
    return false;
  }
}

export function filesIn(data: DataTransfer | null): File[] {
  return data ? [...data.files] : [];
}
