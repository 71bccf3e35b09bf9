// What people come for, on the real server: make a clip, watch it grow, cancel one, try again, play, download, use the settings again,
// delete. At the size of a desktop and of a phone.
import { readFileSync } from 'node:fs';
import { expect, expectAccessible, expectNoSidewaysScrolling, screenshot, test } from './fixtures';

const prompt = 'a red circle moves to the right on a blue background with a low tone';

test('from a prompt to a clip and back', async ({ page, server }, { project }) => {
  test.setTimeout(120_000); // many steps, on machines that have much else to do
  await page.goto(server.url);
  await expect(page.getByRole('heading', { name: 'New clip' })).toBeVisible();
  await screenshot(page, `${project.name}-empty`);

  await test.step('the plan is there before anything is sent, with what was adjusted', async () => {
    await page.getByLabel('Prompt', { exact: true }).fill(prompt);
    await page.getByLabel('Seconds', { exact: true }).fill('0.95');
    await page.getByLabel('Steps').fill('8');
    await page.getByLabel('Seed', { exact: true }).fill('3');
    const plan = page.getByRole('region', { name: 'Plan' });
    await expect(plan).toContainText('96×96, 39 frames, 1.63 s, 8 steps');
    await expect(plan).toContainText('seconds: 0.95 → 1.625');
    await expect(plan).toContainText(/about .*s/);
    await page.getByLabel('Seconds', { exact: true }).fill('');
    await page.getByLabel('Steps').fill('300'); // long enough to be seen
    await expect(plan).toContainText('22 frames, 0.92 s, 300 steps');
    await screenshot(page, `${project.name}-plan`);
  });

  await test.step('it is made, and progress is seen', async () => {
    await page.getByRole('button', { name: 'Make clip' }).click();
    const job = page.getByRole('region', { name: 'Queue' }).getByRole('listitem');
    await expect(job).toHaveCount(1);
    await expect(job.getByRole('progressbar')).toBeVisible();
    await expect(page.locator('.card[data-status=completed]')).toHaveCount(1);
    await expect(page.locator('.spoken[role=status]')).toContainText('is done');
    await expect(page.locator('.card img')).toHaveJSProperty('complete', true);
    expect(await page.locator('.card img').evaluate((image: HTMLImageElement) => image.naturalWidth)).toBeGreaterThan(0);
    await expectNoSidewaysScrolling(page);
    await screenshot(page, `${project.name}-done`);
    await expectAccessible(page);
  });

  await test.step('it plays, with sound, and can be saved', async () => {
    await page.locator('.card-open').first().click();
    const dialog = page.getByRole('dialog', { name: 'Clip' });
    await expect(dialog).toBeVisible();
    expect(new URL(page.url()).pathname).toMatch(/^\/clips\//);
    const video = dialog.locator('video');
    await video.evaluate((element: HTMLVideoElement) => {
      element.muted = true;
      return element.play();
    });
    await expect.poll(() => video.evaluate((element: HTMLVideoElement) => element.currentTime)).toBeGreaterThan(0.1);
    expect(
      await video.evaluate((element: HTMLVideoElement & { webkitAudioDecodedByteCount?: number }) => element.webkitAudioDecodedByteCount),
    ).toBeGreaterThan(0);
    await video.evaluate((element: HTMLVideoElement) => element.pause());
    await expect(dialog).toContainText('Seed');
    await expect(dialog.locator('dl')).toContainText('96×96');
    await expect(dialog.getByRole('table')).toContainText('Denoising');
    const [download] = await Promise.all([page.waitForEvent('download'), dialog.getByRole('link', { name: 'Download' }).click()]);
    expect(download.suggestedFilename()).toMatch(/\.mp4$/);
    expect(
      readFileSync(await download.path())
        .subarray(4, 8)
        .toString(),
    ).toBe('ftyp');
    await expectNoSidewaysScrolling(page);
    await screenshot(page, `${project.name}-clip`);
    await expectAccessible(page);
  });

  await test.step('its address leads to it; its settings can be used again', async () => {
    await page.reload();
    const dialog = page.getByRole('dialog', { name: 'Clip' });
    await expect(dialog.locator('video')).toBeVisible();
    await dialog.getByRole('button', { name: 'Use these settings again' }).click();
    await expect(dialog).toBeHidden();
    expect(new URL(page.url()).pathname).toBe('/');
    await expect(page.getByLabel('Prompt', { exact: true })).toBeFocused();
    await expect(page.getByLabel('Prompt', { exact: true })).toHaveValue(prompt);
    await expect(page.getByLabel('Steps')).toHaveValue('300');
    await expect(page.getByLabel('Seed', { exact: true })).toHaveValue('3');
  });

  await test.step('a clip that begins with a picture; the picture is there when its settings are used again', async () => {
    const thumbnail = await page.request.get(`${server.url}${await page.locator('.card img').first().getAttribute('src')}`);
    await page.getByText('First / last frame').click();
    await page.getByLabel(/^First frame/).setInputFiles({ name: 'start.jpg', mimeType: 'image/jpeg', buffer: await thumbnail.body() });
    await expect(page.locator('.file')).toContainText('start.jpg');
    await expect(page.getByRole('region', { name: 'Plan' })).toContainText('22 frames');
    await page.getByRole('button', { name: 'Make clip' }).click();
    await expect(page.locator('.card[data-status=completed]')).toHaveCount(2);
    await page.locator('.card-open').first().click();
    const dialog = page.getByRole('dialog', { name: 'Clip' });
    await expect(dialog.locator('dl')).toContainText('22');
    await expect(dialog.locator('.finding.warning')).toHaveCount(0);
    await dialog.getByRole('button', { name: 'Use these settings again' }).click();
    await expect(page.locator('.file')).toContainText('from an earlier clip');
    await expect.poll(() => page.locator('.file img').evaluate((image: HTMLImageElement) => image.naturalWidth)).toBeGreaterThan(0);
    await expect(page.getByRole('region', { name: 'Plan' })).toContainText('22 frames');
    await page.getByRole('button', { name: 'Start over' }).click();
  });

  await test.step('a running one is cancelled, and tried again', async () => {
    await page.getByLabel('Prompt', { exact: true }).fill('a slow yellow star spins on a black background');
    await page.getByLabel('Steps').fill('1000');
    await page.getByRole('button', { name: 'Make clip' }).click();
    const job = page.locator('.job[data-status=in_progress]');
    await expect(job).toContainText(/Denoising/);
    await screenshot(page, `${project.name}-running`);
    await job.getByRole('button', { name: /^Cancel/ }).click();
    const cancelled = page.locator('.card[data-status=cancelled]').first();
    await expect(cancelled).toBeVisible();
    await expect(job).toHaveCount(0);
    await cancelled.getByRole('button').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Try again' }).click();
    await expect(page.getByRole('dialog')).toBeHidden();
    await expect(page.locator('.job')).toHaveCount(1);
    await page
      .locator('.job')
      .getByRole('button', { name: /^Cancel/ })
      .click();
    await expect(page.locator('.job')).toHaveCount(0);
  });

  await test.step('deleting asks first', async () => {
    const cards = page.locator('.card');
    const before = await cards.count();
    await cards.first().getByRole('button').click();
    const clip = page.getByRole('dialog', { name: 'Clip' });
    await clip.getByRole('button', { name: 'Delete', exact: true }).click();
    const question = page.getByRole('dialog', { name: 'Delete this clip?' });
    await expect(question.getByRole('button', { name: 'Keep it' })).toBeFocused();
    await question.getByRole('button', { name: 'Keep it' }).click();
    await expect(question).toBeHidden();
    await clip.getByRole('button', { name: 'Delete', exact: true }).click();
    await question.getByRole('button', { name: 'Delete', exact: true }).click();
    await expect(cards).toHaveCount(before - 1);
    await expect(page.getByRole('dialog')).toHaveCount(0);
    await page.reload();
    await expect(cards).toHaveCount(before - 1);
  });

  // The next project begins with an empty server.
  for (const { id } of (await (await page.request.get(`${server.url}/v1/videos?limit=100`)).json()).data)
    await page.request.delete(`${server.url}/v1/videos/${id}`);
});
