// Prompts to begin with, in the forms the model was trained with. What is in square brackets with "…" is to be replaced.
export interface Template {
  id: string;
  text: string;
}

const shots = `[Shot 1] Live-action style, natural light. A medium shot frames [who or what …] in [where …]. [What happens …] The camera pushes in with small amplitude at slow speed.`;
const sound = `overall_soundscape:
[Ambience and effects, in the order in which they are heard …]

non_diegetic_music:
N/A`;

export const templates: Template[] = [
  {
    id: 'text',
    text: `integrated_multimodal_description:
${shots}

${sound}`,
  },
  {
    id: 'speech',
    text: `integrated_multimodal_description:
[Shot 1] Live-action style, soft window light. A close-up frames [a person, with face, hair and clothes …] in [where …]. The speaker (S1) looks up and says: <d>[English] [the words …]</d> The lips close when the line ends. The camera holds a static shot.

overall_soundscape:
Quiet room tone under a clear, close voice.

non_diegetic_music:
N/A`,
  },
  {
    id: 'shots',
    text: `integrated_multimodal_description:
[Shot 1] Live-action style, [light …]. A wide shot shows [place …]. [What happens …] The camera pans right at slow speed.
[Shot 2] At 00:02.500, the shot cuts to a close-up of [detail …]. [What happens …] The camera holds a static shot.

${sound}`,
  },
  {
    id: 'first',
    text: `For the target video, at 0.00 seconds into the target video, <Picture 1> (from [Shot 1]) is fully referenced.

integrated_multimodal_description:
[Shot 1] The shot begins exactly as <Picture 1>: [what it shows …]. Then [what moves, and how …]. The camera holds a static shot.

${sound}`,
  },
  {
    id: 'first_last',
    text: `How the reference pictures align with the target video — Picture 1 (from Shot 1) aligns with the 0.00-second mark of the target video; Picture 2 (from Shot 1) aligns with the [length …]-second mark of the target video.

integrated_multimodal_description:
[Shot 1] The shot begins as <Picture 1>: [what it shows …]. [How it becomes the second picture, step by step …] It ends as <Picture 2>. The camera holds a static shot.

${sound}`,
  },
  {
    id: 'reference',
    text: `subject_definitions:
<Subject 1> is [who or what …] in <Picture 1>, with [features to keep …].

summary:
[reference generation] The target video shows <Subject 1> [doing what, where …].

retention_analysis:
<Subject 1> (appears in [Shot 1]): fully_preserved - [what stays as it is …].

detailed_description:
The target video is in a live-action style with natural light.
[Shot 1] A medium shot frames <Subject 1> in [where …]. [What happens, in order …] The camera pushes in with small amplitude at slow speed.

${sound}`,
  },
  {
    id: 'voice',
    text: `subject_definitions:
<Subject 1> is [a person …] in <Picture 1>, with [face, hair, clothes …].
<Audio 1> is the reference for the timbre of <Subject 1>'s voice.

summary:
[reference generation + audio reference] The target video shows <Subject 1> speaking in [where …], with the voice of <Audio 1>.

retention_analysis:
<Subject 1> (appears in [Shot 1]): fully_preserved - [what stays as it is …].
<Audio 1>: reference - the timbre is followed, not the words.

detailed_description:
The target video is in a live-action style with soft light.
[Shot 1] A close-up frames <Subject 1>. <Subject 1> (S1) looks at the camera and says: <d>[English] [the words …]</d> The lips close when the line ends. The camera holds a static shot.

overall_soundscape:
Quiet room tone under a clear voice with the timbre of <Audio 1>.

non_diegetic_music:
N/A`,
  },
  {
    id: 'edit',
    text: `subject_definitions:
<Subject 1> is [who or what …] in <Video 1>.
<Video 1> is the source video for the editing task.

summary:
[video editing] The target video is an edited version of <Video 1>. [What changes …]

retention_analysis:
<Subject 1> (appears in [Shot 1]): partially_preserved - [what stays, what changes …].
<Video 1> (source video editing): fully_preserved - framing, light and setting are kept.

detailed_description:
The target video is in the style of <Video 1>.
[Shot 1] The shot begins from <Video 1>. [What is seen and done, in order …]

${sound}`,
  },
  { id: 'demo', text: 'a red circle moves to the right on a blue background with a low tone' },
];

// The next thing to fill in, for the editor: where it begins and ends.
export function nextBlank(text: string, from: number): [number, number] | null {
  const blank = /\[[^\][\n]*…\]/g;
  blank.lastIndex = from;
  const match = blank.exec(text) ?? (from > 0 ? /\[[^\][\n]*…\]/.exec(text) : null);
  return match ? [match.index, match.index + match[0].length] : null;
}
