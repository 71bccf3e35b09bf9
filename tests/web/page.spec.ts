// What a real server rarely does, on the stand-in of web/mock: failures, refusals, lost connections, keys, long lists; and how the page
// behaves in other surroundings.
import type { Page } from '@playwright/test';
import { startMock } from '../../web/mock/server.mjs';
import { expect, expectAccessible, expectNoSidewaysScrolling, screenshot, test as base } from './fixtures';

const test = base.extend<{ mock: Awaited<ReturnType<typeof startMock>>; key: string }>({
  key: ['', { option: true }],
  mock: async ({ key }, use) => {
    const mock = await startMock({ key });
    await use(mock);
    await mock.close();
  },
});

const promptOf = (page: Page) => page.getByLabel('Prompt', { exact: true });
const remarks = (page: Page) => page.getByRole('region', { name: 'Remarks on the prompt' });
const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64');

async function make(page: Page, prompt: string): Promise<void> {
  await promptOf(page).fill(prompt);
  await page.getByRole('button', { name: 'Make clip' }).click();
}

test('a failed job says why, what to do and what its worker said last', async ({ page, mock }) => {
  await page.goto(mock.url);
  await make(page, 'this will fail');
  const card = page.locator('.card[data-status=failed]');
  await expect(card).toContainText('the worker died while denoising');
  await card.getByRole('button').click();
  const dialog = page.getByRole('dialog');
  await expect(dialog).toContainText('Failed (Denoising)');
  await expect(dialog).toContainText('look at its last words');
  await dialog.getByText('Last words of the worker').click();
  await expect(dialog.locator('pre')).toContainText('signal 6');
  await screenshot(page, 'desktop-failed');
  await expectAccessible(page);
  await dialog.getByRole('button', { name: 'Try again' }).click();
  await expect(page.locator('.job')).toHaveCount(1);
});

test('what does not fit is refused with the numbers and what would fit', async ({ page, mock, watched }) => {
  watched.expected.push(/status of 422/);
  await page.goto(mock.url);
  await promptOf(page).fill('a large one');
  await page.getByLabel('Size').selectOption('exact');
  await page.getByLabel('Width').fill('4096');
  await page.getByLabel('Height').fill('4096');
  const plan = page.getByRole('region', { name: 'Plan' });
  await expect(plan.getByRole('alert')).toContainText('40.00 GiB');
  await expect(plan).toContainText('1024x576');
  await screenshot(page, 'desktop-refused');
});

test('references have labels, the prompt is checked against them, and all of it is sent', async ({ page, mock }) => {
  await page.goto(mock.url);
  await page.getByText('References', { exact: true }).click();
  const zone = page.getByLabel(/Add pictures, videos or sounds/);
  await zone.setInputFiles([
    { name: 'face.png', mimeType: 'image/png', buffer: png },
    { name: 'voice.wav', mimeType: 'audio/wav', buffer: Buffer.alloc(44) },
  ]);
  await zone.setInputFiles({ name: 'coat.png', mimeType: 'image/png', buffer: png });
  await expect(page.locator('.file strong')).toHaveText(['<Picture 1>', '<Audio 1>', '<Picture 2>']);
  await promptOf(page).fill('someone like ');
  await expect(remarks(page)).toContainText('<Picture 2> is never named');
  await promptOf(page).press('End');
  await page.getByRole('button', { name: 'Insert <Picture 1> into the prompt' }).click();
  await expect(promptOf(page)).toHaveValue('someone like <Picture 1>');
  await promptOf(page).pressSequentially(' with <Picture 7>, @image2 and <Audio 1>');
  await expect(remarks(page)).toContainText('<Picture 7> does not exist');
  await expect(remarks(page)).toContainText('“<Picture 2>”, not “@image2”');
  await screenshot(page, 'desktop-references');
  await expectAccessible(page);

  await page.getByRole('button', { name: 'Move <Picture 2> forward' }).click();
  await expect(page.locator('.file .name')).toContainText(['face.png', 'coat.png', 'voice.wav']);
  await page.getByRole('button', { name: 'Make clip' }).click();
  await expect(page.locator('.job')).toHaveCount(1);
  const references = [
    { type: 'image', uri: 'form:reference_1' },
    { type: 'image', uri: 'form:reference_2' },
    { type: 'audio', uri: 'form:reference_3' },
  ];
  expect(mock.received).toEqual([
    {
      prompt: 'someone like <Picture 1> with <Picture 7>, @image2 and <Audio 1>',
      references: JSON.stringify(references),
      reference_1: 'form:reference_1:face.png',
      reference_2: 'form:reference_2:coat.png',
      reference_3: 'form:reference_3:voice.wav',
    },
  ]);
  await page.getByRole('button', { name: 'Remove face.png' }).click();
  await expect(page.locator('.file strong')).toHaveText(['<Picture 1>', '<Audio 1>']);
});

test('a pasted and a dropped picture become frames; a wrong file is refused by name', async ({ page, mock }) => {
  await page.goto(mock.url);
  const give = (kind: 'paste' | 'drop', name: string, type: string, target: string) =>
    page.evaluate(
      ([how, fileName, mime, where, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes as number[])], fileName as string, { type: mime as string }));
        const element = document.querySelector(where as string);
        if (how === 'paste') element?.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
        else element?.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }));
      },
      [kind, name, type, target, [...png]] as const,
    );
  await promptOf(page).fill('it begins');
  await give('paste', 'start.png', 'image/png', '#prompt');
  await expect(page.locator('.file')).toContainText(['start.png']);
  await give('drop', 'song.mp3', 'audio/mpeg', '.zone');
  await expect(page.locator('.note')).toContainText('song.mp3');
  await give('drop', 'end.png', 'image/png', '.zone');
  await expect(page.locator('.file strong')).toHaveText(['First frame', 'Last frame']);
  await expect(page.getByRole('region', { name: 'Plan' })).toContainText('22 frames');
});

test('a template is filled in from blank to blank, and the text before it comes back', async ({ page, mock }) => {
  await page.goto(mock.url);
  await promptOf(page).fill('my own words');
  await page.getByLabel('Template').selectOption({ label: 'Subject from a picture (six parts)' });
  await expect(promptOf(page)).toHaveValue(/^subject_definitions:/);
  await expect(page.getByRole('radio', { name: 'References' })).toBeChecked();
  const selected = () => promptOf(page).evaluate((area: HTMLTextAreaElement) => area.value.slice(area.selectionStart, area.selectionEnd));
  await expect.poll(selected).toBe('[who or what …]');
  await page.getByRole('button', { name: 'Next blank' }).click();
  await expect.poll(selected).toBe('[features to keep …]');
  await expect(remarks(page)).toContainText('<Picture 1> does not exist');
  await page.getByRole('button', { name: 'Bring my text back' }).click();
  await expect(promptOf(page)).toHaveValue('my own words');
});

test('without events the page asks, and with them it listens again', async ({ page, mock, watched, request }) => {
  watched.expected.push(/status of 503/, /ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION/);
  await page.goto(mock.url);
  await make(page, 'a first one');
  await expect(page.locator('.card[data-status=completed]')).toHaveCount(1);
  await request.post(`${mock.url}/mock/deaf`);
  await request.post(`${mock.url}/mock/drop`);
  await expect(page.getByText('No live connection')).toBeVisible();
  await make(page, 'a second one');
  await expect(page.locator('.card[data-status=completed]')).toHaveCount(2);
  await request.post(`${mock.url}/mock/hear`);
  await expect(page.getByText('No live connection')).toBeHidden();
  await make(page, 'a third one');
  await expect(page.locator('.job .thumbnail img')).toBeVisible();
  await expect(page.locator('.card[data-status=completed]')).toHaveCount(3);
});

test.describe('with keys', () => {
  test.use({ key: 'sesame' });
  test('the page asks for one, keeps it for the tab, and media need it too', async ({ page, mock, watched }) => {
    watched.expected.push(/status of 401/);
    await page.goto(mock.url);
    const dialog = page.getByRole('dialog', { name: 'API key' });
    await expect(dialog.getByLabel('Key')).toBeFocused();
    await dialog.getByLabel('Key').fill('wrong');
    await dialog.getByRole('button', { name: 'Use this key' }).click();
    await expect(dialog.getByRole('alert')).toContainText('does not accept');
    await expectAccessible(page);
    await dialog.getByLabel('Key').fill('sesame');
    await dialog.getByRole('button', { name: 'Use this key' }).click();
    await expect(dialog).toBeHidden();
    await make(page, 'a red circle');
    const card = page.locator('.card[data-status=completed]');
    await expect(card.locator('img')).toHaveAttribute('src', /^blob:/);
    await card.getByRole('button').click();
    await expect(page.locator('video.player')).toHaveAttribute('src', /^blob:/);
    await expect.poll(() => page.locator('video.player').evaluate((video: HTMLVideoElement) => video.duration)).toBeGreaterThan(0.5);
    await page.reload();
    await expect(page.locator('video.player')).toHaveAttribute('src', /^blob:/);
    expect(await page.evaluate(() => [Object.keys(localStorage), localStorage.getItem('tritium.draft')?.includes('sesame')])).toEqual([
      ['tritium.draft'],
      false,
    ]);
  });

  test('without one the page stays quiet and says what is missing', async ({ page, mock, watched }) => {
    watched.expected.push(/status of 401/);
    await page.goto(mock.url);
    await page.getByRole('button', { name: 'Not now' }).click();
    await expect(page.getByRole('dialog')).toBeHidden();
    await expect(page.locator('.banner')).toContainText('This server wants a key');
    await page.waitForTimeout(2500);
    await expect(page.getByRole('dialog')).toBeHidden();
    await page.locator('.banner').getByRole('button', { name: 'API key' }).click();
    await expect(page.getByRole('dialog')).toBeVisible();
  });
});

test('older clips come page by page', async ({ page, mock }) => {
  for (let i = 0; i < 60; i++) mock.add(`clip ${i}`);
  await page.goto(mock.url);
  await expect(page.locator('.card')).toHaveCount(24);
  await page.getByRole('button', { name: 'Show older ones' }).click();
  await expect(page.locator('.card')).toHaveCount(48);
  await page.getByRole('button', { name: 'Show older ones' }).click();
  await expect(page.locator('.card')).toHaveCount(60);
  await expect(page.getByRole('button', { name: 'Show older ones' })).toBeHidden();
});

test('an address of a clip that is gone says so', async ({ page, mock, watched }) => {
  watched.expected.push(/status of 404/);
  await page.goto(`${mock.url}/clips/video_gone`);
  await expect(page.getByRole('dialog')).toContainText('does not exist any more');
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toBeHidden();
  expect(new URL(page.url()).pathname).toBe('/');
});

test('everything is reached with the keyboard alone', async ({ page, mock }) => {
  await page.goto(mock.url);
  await page.keyboard.press('Tab');
  await expect(page.getByRole('link', { name: 'Skip to the prompt' })).toBeFocused();
  await page.keyboard.press('Enter');
  await promptOf(page).focus();
  await page.keyboard.type('a green square');
  await page.keyboard.press('Control+Enter');
  await expect(page.locator('.card[data-status=completed]')).toHaveCount(1);
  await page.locator('.card-open').focus();
  await page.keyboard.press('Enter');
  await expect(page.getByRole('dialog')).toBeVisible();
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press('Tab');
    const inside = await page.evaluate(
      () => document.activeElement === document.body || document.activeElement?.closest('dialog') !== null,
    );
    expect(inside).toBe(true);
  }
  await page.keyboard.press('Escape');
  await expect(page.getByRole('dialog')).toBeHidden();
  await expect(page.locator('.card-open')).toBeFocused();
  // Arrow keys choose among the modes.
  await page.getByRole('radio', { name: 'Text only' }).focus();
  await page.keyboard.press('ArrowRight');
  await expect(page.getByRole('radio', { name: 'First / last frame' })).toBeChecked();
});

test.describe('in the dark', () => {
  test.use({ colorScheme: 'dark', viewport: { width: 360, height: 740 } });
  test('contrast holds', async ({ page, mock }) => {
    mock.add('a clip');
    await page.goto(mock.url);
    await promptOf(page).fill('overall_soundscape: <Picture 2>');
    await expect(remarks(page)).toContainText('Missing');
    await page.getByText('More', { exact: true }).click();
    await page.getByRole('button', { name: 'Add a LoRA' }).click();
    await expectNoSidewaysScrolling(page);
    await expectAccessible(page);
    await screenshot(page, 'phone-dark');
  });
});

test.describe('in Chinese', () => {
  test.use({ locale: 'zh-CN', viewport: { width: 360, height: 740 } });
  test('the page speaks the language of the browser', async ({ page, mock }) => {
    await page.goto(mock.url);
    await expect(page.getByRole('heading', { name: '新视频' })).toBeVisible();
    await page.getByLabel('提示词', { exact: true }).fill('一个红色的圆');
    await page.getByRole('button', { name: '生成视频' }).click();
    await expect(page.locator('.card[data-status=completed]')).toHaveCount(1);
    expect(await page.evaluate(() => document.documentElement.lang)).toBe('zh');
    await expectNoSidewaysScrolling(page);
    await screenshot(page, 'phone-chinese');
  });
});
