// What can be seen in a prompt before anything is computed. The forms are those that the released model was trained with: three parts for
// text and keyframes, six for references; free text is allowed everywhere.

export type Level = 'error' | 'warning' | 'advice';
export type Kind = 'Picture' | 'Video' | 'Audio';

export interface Finding {
  level: Level;
  code: string; // of a message
  values?: Record<string, string | number>;
}

export interface LintInput {
  prompt: string;
  references: boolean; // inputs are references, which the prompt has to name; otherwise pictures are keyframes
  pictures: number;
  videos: number;
  audios: number;
  seconds?: number; // of the clip, when known
}

export const baseParts = ['integrated_multimodal_description', 'overall_soundscape', 'non_diegetic_music'] as const;
export const referenceParts = [
  'subject_definitions',
  'summary',
  'retention_analysis',
  'detailed_description',
  'overall_soundscape',
  'non_diegetic_music',
] as const;

const longPrompt = 7000; // characters; the server refuses more

interface Part {
  name: string;
  empty: boolean;
}

function partsOf(prompt: string): Part[] {
  const names = [...new Set<string>([...baseParts, ...referenceParts])];
  const heading = new RegExp(`^[ \\t]*(${names.join('|')})[ \\t]*:`, 'gim');
  const found = [...prompt.matchAll(heading)];
  return found.map((match, i) => {
    const from = match.index + match[0].length;
    const to = found[i + 1]?.index ?? prompt.length;
    return { name: (match[1] ?? '').toLowerCase(), empty: prompt.slice(from, to).trim() === '' };
  });
}

function lintParts(input: LintInput, findings: Finding[]): void {
  const parts = partsOf(input.prompt);
  if (parts.length === 0) {
    if (input.prompt.length > 80) findings.push({ level: 'advice', code: input.references ? 'lint.free_six' : 'lint.free_three' });
    return;
  }
  const wanted: readonly string[] = input.references ? referenceParts : baseParts;
  const names = parts.map((part) => part.name);
  const foreign = names.filter((name) => !wanted.includes(name));
  if (foreign.length > 0)
    findings.push({
      level: 'warning',
      code: input.references ? 'lint.foreign_six' : 'lint.foreign_three',
      values: { parts: [...new Set(foreign)].join(', ') },
    });
  const missing = wanted.filter((name) => !names.includes(name));
  if (missing.length > 0) findings.push({ level: 'warning', code: 'lint.missing', values: { parts: missing.join(', ') } });
  const twice = names.filter((name, i) => names.indexOf(name) !== i);
  if (twice.length > 0) findings.push({ level: 'warning', code: 'lint.twice', values: { parts: [...new Set(twice)].join(', ') } });
  const known = names.filter((name, i) => wanted.includes(name) && names.indexOf(name) === i);
  if (known.some((name, i) => i > 0 && wanted.indexOf(name) < wanted.indexOf(known[i - 1] ?? '')))
    findings.push({ level: 'warning', code: 'lint.order', values: { parts: wanted.join(', ') } });
  for (const part of parts) if (part.empty) findings.push({ level: 'warning', code: 'lint.empty_part', values: { part: part.name } });
}

function lintLabels(input: LintInput, findings: Finding[]): void {
  const there: Record<Kind, number> = { Picture: input.pictures, Video: input.videos, Audio: input.audios };
  const named: Record<Kind, Set<number>> = { Picture: new Set(), Video: new Set(), Audio: new Set() };
  const unknown = new Set<string>();
  for (const match of input.prompt.matchAll(/<(Picture|Video|Audio) ([1-9]\d*)>/g)) {
    const kind = match[1] as Kind;
    const number = Number(match[2]);
    named[kind].add(number);
    if (number > there[kind]) unknown.add(match[0]);
  }
  for (const label of unknown) findings.push({ level: 'warning', code: 'lint.no_such_input', values: { label } });

  // The base form's line for two keyframes names them without brackets.
  if (!input.references) return lintKeyframes(input, named.Picture, findings);
  for (const kind of ['Picture', 'Video', 'Audio'] as const)
    for (let number = 1; number <= there[kind]; number++)
      if (!named[kind].has(number)) findings.push({ level: 'warning', code: 'lint.never_named', values: { label: `<${kind} ${number}>` } });
}

function lintKeyframes(input: LintInput, named: Set<number>, findings: Finding[]): void {
  if (input.pictures === 0 || partsOf(input.prompt).length === 0) return;
  for (let number = 1; number <= input.pictures; number++)
    if (!named.has(number) && !new RegExp(`\\bPicture ${number}\\b`).test(input.prompt))
      findings.push({ level: 'advice', code: 'lint.keyframe_line', values: { label: `Picture ${number}` } });
}

const words: Record<string, Kind> = {
  picture: 'Picture',
  image: 'Picture',
  img: 'Picture',
  photo: 'Picture',
  video: 'Video',
  clip: 'Video',
  audio: 'Audio',
  sound: 'Audio',
  voice: 'Audio',
};

function lintMisspelt(prompt: string, findings: Finding[]): void {
  const seen = new Set<string>();
  for (const match of prompt.matchAll(/[<@[{(]\s*(picture|image|img|photo|video|clip|audio|sound|voice)\s*[_#-]?\s*(\d+)\s*[>\]})]?/gi)) {
    const kind = words[(match[1] ?? '').toLowerCase()];
    const right = `<${kind ?? ''} ${Number(match[2])}>`;
    const written = match[0].trim();
    if (written === right || seen.has(written)) continue;
    seen.add(written);
    findings.push({ level: 'warning', code: 'lint.misspelt', values: { written, right } });
  }
}

function lintSpeech(prompt: string, findings: Finding[]): void {
  const opened = (prompt.match(/<d>/g) ?? []).length;
  const closed = (prompt.match(/<\/d>/g) ?? []).length;
  if (opened !== closed) findings.push({ level: 'warning', code: 'lint.speech_unclosed', values: { opened, closed } });
  else if (/<d>(?!\s*\[[^\]]+\])/.test(prompt)) findings.push({ level: 'advice', code: 'lint.speech_language' });
}

function lintShots(input: LintInput, findings: Finding[]): void {
  const body = input.prompt.replace(/^(for the target video|how the reference pictures)[^\n]*/i, '');
  const described = body.match(/(integrated_multimodal_description|detailed_description)[ \t]*:([\s\S]*)/i)?.[2] ?? '';
  const shots = [...described.matchAll(/^\s*\[Shot (\d+)\]/gm)].map((match) => Number(match[1]));
  if (shots.some((shot, i) => shot !== i + 1)) findings.push({ level: 'warning', code: 'lint.shots', values: { shots: shots.join(', ') } });
  const times = [...described.matchAll(/\bAt (\d{2}):(\d{2}\.\d{3})\b/g)].map((match) => Number(match[1]) * 60 + Number(match[2]));
  if (times.some((time, i) => i > 0 && time <= (times[i - 1] ?? 0))) findings.push({ level: 'warning', code: 'lint.times_order' });
  const late = times.find((time) => input.seconds !== undefined && time >= input.seconds);
  if (late !== undefined)
    findings.push({
      level: 'warning',
      code: 'lint.times_late',
      values: { time: late.toFixed(1), seconds: (input.seconds ?? 0).toFixed(1) },
    });
}

function lintTokens(input: LintInput, findings: Finding[]): void {
  const tokens = [...new Set(input.prompt.match(/<\|[a-z_]+\|>/g) ?? [])];
  for (const token of tokens) {
    const pad = /_pad\|>$/.test(token) && input.pictures + input.videos > 0;
    findings.push({ level: pad ? 'error' : 'warning', code: pad ? 'lint.pad_token' : 'lint.token', values: { token } });
  }
}

const rank: Record<Level, number> = { error: 0, warning: 1, advice: 2 };

export function lint(input: LintInput): Finding[] {
  const findings: Finding[] = [];
  const length = [...input.prompt].length;
  if (input.prompt.trim() === '') return [{ level: 'error', code: 'lint.empty' }];
  if (length > longPrompt) findings.push({ level: 'error', code: 'lint.long', values: { length, limit: longPrompt } });
  if (input.references && input.pictures + input.videos === 0 && input.audios > 0)
    findings.push({ level: 'error', code: 'lint.sound_alone' });
  lintTokens(input, findings);
  lintLabels(input, findings);
  lintMisspelt(input.prompt, findings);
  lintParts(input, findings);
  lintSpeech(input.prompt, findings);
  lintShots(input, findings);
  return findings.sort((a, b) => rank[a.level] - rank[b.level]);
}
