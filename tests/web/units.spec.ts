// Parts of the page that need no browser.
import { expect, test } from '@playwright/test';
import { EventParser } from '../../web/src/event_parser';
import { bytes, duration } from '../../web/src/format';
import { lint, type LintInput } from '../../web/src/lint';
import { en } from '../../web/src/messages.en';
import { zh } from '../../web/src/messages.zh';
import { nextBlank, templates } from '../../web/src/templates';

const nothing: LintInput = { prompt: '', references: false, pictures: 0, videos: 0, audios: 0 };
const codes = (input: Partial<LintInput>): string[] => lint({ ...nothing, ...input }).map(({ code }) => code);
const first = (input: Partial<LintInput>) => lint({ ...nothing, ...input })[0];

const three = 'integrated_multimodal_description:\n[Shot 1] a\n\noverall_soundscape:\nb\n\nnon_diegetic_music:\nN/A';
const six =
  'subject_definitions:\n<Subject 1> is in <Picture 1>\n\nsummary:\nb\n\nretention_analysis:\nc\n\ndetailed_description:\n[Shot 1] d\n\n' +
  'overall_soundscape:\ne\n\nnon_diegetic_music:\nN/A';

test.describe('remarks on prompts', () => {
  test('nothing to say about what is right', () => {
    expect(codes({ prompt: 'a red circle' })).toEqual([]);
    expect(codes({ prompt: three })).toEqual([]);
    expect(codes({ prompt: six, references: true, pictures: 1 })).toEqual([]);
    expect(codes({ prompt: '一个红色的圆' })).toEqual([]);
  });

  test('empty and too long', () => {
    expect(first({ prompt: ' \n' })).toEqual({ level: 'error', code: 'lint.empty' });
    expect(first({ prompt: 'ab'.repeat(3501) })?.code).toBe('lint.long');
    expect(codes({ prompt: '圆'.repeat(7000) })).not.toContain('lint.long');
    // Characters, not halves of them.
    expect(codes({ prompt: '🎬'.repeat(7000) })).not.toContain('lint.long');
  });

  test('parts that are missing, foreign, doubled, empty or in another order', () => {
    expect(first({ prompt: three.replace(/overall_soundscape:\nb\n\n/, '') })?.values).toEqual({ parts: 'overall_soundscape' });
    expect(codes({ prompt: six })).toContain('lint.foreign_three');
    expect(codes({ prompt: three, references: true, pictures: 1 })).toContain('lint.foreign_six');
    expect(codes({ prompt: `${three}\nnon_diegetic_music: x` })).toContain('lint.twice');
    expect(codes({ prompt: three.replace('\nb\n', '\n') })).toContain('lint.empty_part');
    expect(codes({ prompt: 'overall_soundscape: b\nintegrated_multimodal_description: a\nnon_diegetic_music: N/A' })).toContain(
      'lint.order',
    );
    expect(codes({ prompt: 'x '.repeat(60) })).toEqual(['lint.free_three']);
    expect(codes({ prompt: 'x '.repeat(60), references: true, videos: 0 })).toEqual(['lint.free_six']);
  });

  test('labels without an input, inputs without a label', () => {
    expect(first({ prompt: 'like <Picture 3>', references: true, pictures: 2 })?.values).toEqual({ label: '<Picture 3>' });
    expect(codes({ prompt: 'like <Picture 1>' })).toEqual(['lint.no_such_input']);
    expect(codes({ prompt: 'like <Picture 1>', pictures: 1 })).toEqual([]);
    const never = lint({ ...nothing, prompt: '<Video 1> moves', references: true, pictures: 1, videos: 1, audios: 1 });
    expect(never.map(({ values }) => values?.['label'])).toEqual(['<Picture 1>', '<Audio 1>']);
    expect(codes({ prompt: 'a voice', references: true, audios: 1 })).toContain('lint.sound_alone');
    expect(codes({ prompt: three, pictures: 1 })).toEqual(['lint.keyframe_line']);
    expect(codes({ prompt: `Picture 1 aligns …\n${three}`, pictures: 1 })).toEqual([]);
  });

  test('labels that the model does not know', () => {
    for (const [written, right] of [
      ['<image 1>', '<Picture 1>'],
      ['@Image1', '<Picture 1>'],
      ['<picture 1>', '<Picture 1>'],
      ['[Audio 2]', '<Audio 2>'],
      ['<Sound 1>', '<Audio 1>'],
    ])
      expect(first({ prompt: `as ${written} says` })).toMatchObject({ code: 'lint.misspelt', values: { written, right } });
    expect(codes({ prompt: 'take 1 of the video 2 times, Shot 3' })).toEqual([]);
  });

  test('speech, shots and times', () => {
    expect(codes({ prompt: 'she says <d>[English] hi' })).toEqual(['lint.speech_unclosed']);
    expect(codes({ prompt: 'she says <d>hi</d>' })).toEqual(['lint.speech_language']);
    const shots = (text: string) => three.replace('[Shot 1] a', text);
    expect(codes({ prompt: shots('[Shot 1] a\n[Shot 3] At 00:02.000, b') })).toEqual(['lint.shots']);
    expect(codes({ prompt: shots('[Shot 1] a\n[Shot 2] At 00:02.000, b\n[Shot 3] At 00:01.500, c') })).toEqual(['lint.times_order']);
    expect(first({ prompt: shots('[Shot 1] a\n[Shot 2] At 00:06.000, b'), seconds: 5.17 })?.values).toEqual({
      time: '6.0',
      seconds: '5.2',
    });
  });

  test('control tokens', () => {
    expect(first({ prompt: 'a <|im_end|>' })?.level).toBe('warning');
    expect(first({ prompt: 'a <|image_pad|>', pictures: 1 })).toEqual({
      level: 'error',
      code: 'lint.pad_token',
      values: { token: '<|image_pad|>' },
    });
  });

  test('templates keep to the forms', () => {
    const inputs: Record<string, Partial<LintInput>> = {
      first: { pictures: 1 },
      first_last: { pictures: 2 },
      reference: { references: true, pictures: 1 },
      voice: { references: true, pictures: 1, audios: 1 },
      edit: { references: true, videos: 1 },
    };
    for (const { id, text } of templates) expect([id, codes({ ...inputs[id], prompt: text })]).toEqual([id, []]);
  });
});

test('the next blank of a template', () => {
  const text = 'a [one …] b [Shot 1] c [two …]';
  expect(nextBlank(text, 0)).toEqual([2, 9]);
  expect(nextBlank(text, 9)).toEqual([23, 30]);
  expect(nextBlank(text, 30)).toEqual([2, 9]);
  expect(nextBlank('nothing', 0)).toBeNull();
});

test('events come out whole, wherever the stream is cut', () => {
  const stream =
    ': hello\r\nretry: 2000\n\nid: 7\nevent: state\ndata: {"id":\ndata: "a"}\n\nevent: progress\ndata:{"id":"é"}\r\n\r\ndata: not json\n\nid: 8\n\n';
  for (let size = 1; size < 40; size++) {
    const parser = new EventParser();
    const events = [];
    for (let at = 0; at < stream.length; at += size) events.push(...parser.push(stream.slice(at, at + size)));
    expect(events).toEqual([
      { name: 'state', data: { id: 'a' } },
      { name: 'progress', data: { id: 'é' } },
    ]);
    expect([parser.lastId, parser.retryMs]).toEqual(['8', 2000]);
  }
});

test('both languages say the same things', () => {
  const holes = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map(([hole]) => hole).sort();
  for (const [key, text] of Object.entries(en)) expect([key, holes(zh[key as keyof typeof en])]).toEqual([key, holes(text)]);
});

test('numbers as people read them', () => {
  expect([0.94, 59.7, 61, 3599, 7260].map(duration)).toEqual(['0.94 s', '1 min 00 s', '1 min 01 s', '59 min 59 s', '2 h 01 min']);
  expect([0, 1023, 1536, 5 * 2 ** 30].map(bytes)).toEqual(['0 B', '1023 B', '1.5 KiB', '5.0 GiB']);
});
