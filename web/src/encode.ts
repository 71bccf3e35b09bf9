// A draft as the server takes it: JSON, or a form when files go along.
import type { VideoRequest } from './api';
import { requestOf, type Draft, type Span } from './draft';
import type { InputFile } from './media';

function range({ from, to }: Span, unit: number): [number, number][] {
  if (from.trim() === '' || to.trim() === '') return [];
  const count = (text: string): number => (unit === 1 ? Number(text) : Math.round(Number(text) * unit));
  return [[count(from), count(to)]];
}

// Files of the form get parts of their own; what is on the server already is named.
class Files {
  readonly parts: [string, File][] = [];

  of(input: InputFile | null, part: string): string | undefined {
    if (!input) return undefined;
    if (!input.file) return input.uri;
    this.parts.push([part, input.file]);
    return `form:${part}`;
  }
}

function withInputs(now: Draft, files: Files): VideoRequest {
  const request = requestOf(now);
  if (now.mode === 'keyframes')
    return { ...request, first_frame: files.of(now.first, 'first_frame'), last_frame: files.of(now.last, 'last_frame') };
  if (now.mode === 'references')
    return {
      ...request,
      references: now.references.map((input, i) => ({
        type: input.kind,
        uri: files.of(input, `reference_${i + 1}`) ?? '',
        ...(input.soundUri && input.sound ? { sound: input.soundUri } : {}),
        ...(input.kind === 'video' && !input.sound ? { silent: true } : {}),
      })),
    };
  if (now.mode === 'sound_for_video') return { ...request, sound_for: files.of(now.source, 'sound_for') };
  if (now.mode === 'video_for_sound') return { ...request, video_for: files.of(now.source, 'video_for') };
  const video = now.mode === 'retake' ? files.of(now.source, 'retake_video') : undefined;
  return video === undefined
    ? request
    : { ...request, retake: { video, frames: range(now.retakePictures, 24), seconds: range(now.retakeSound, 1) } };
}

export function bodyOf(now: Draft): FormData | object {
  const files = new Files();
  const request = withInputs(now, files);
  if (files.parts.length === 0) return request;
  const form = new FormData();
  const sent = new Set(files.parts.map(([part]) => part));
  for (const [name, value] of Object.entries(request)) {
    // "first_frame" and its like are the file itself.
    if (value === undefined || sent.has(name)) continue;
    form.append(name, typeof value === 'object' ? JSON.stringify(value) : String(value));
  }
  for (const [part, file] of files.parts) form.append(part, file);
  return form;
}
