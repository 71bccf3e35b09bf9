// What every test of the page starts from: a server, and a page on which nothing may go wrong unnoticed.
import AxeBuilder from '@axe-core/playwright';
import { expect, test as base, type Page } from '@playwright/test';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { startServer, type Server } from './server';

export interface Watched {
  expected: RegExp[]; // complaints of the browser that the test provokes
}

interface Fixtures {
  watched: Watched;
}
interface WorkerFixtures {
  server: Server;
}

export const test = base.extend<Fixtures, WorkerFixtures>({
  server: [
    async ({}, use) => {
      const server = await startServer();
      await use(server);
      await server.stop();
    },
    { scope: 'worker', timeout: 30_000 },
  ],
  watched: async ({}, use) => use({ expected: [] }),
  page: async ({ page, watched }, use) => {
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error' || message.type() === 'warning') complaints.push(`${message.text()} (${message.location().url})`);
    });
    page.on('pageerror', (error) => complaints.push(error.stack ?? error.message));
    page.on('request', (request) => {
      const url = new URL(request.url());
      if (/^https?:$/.test(url.protocol) && url.hostname !== '127.0.0.1') complaints.push(`a request to ${url.href}`);
    });
    await use(page);
    expect(complaints.filter((text) => !watched.expected.some((pattern) => pattern.test(text)))).toEqual([]);
  },
});

export { expect };

const folder = join(process.env['TRITIUM_WEB_OUTPUT'] ?? '/tmp/tritium-web', 'web-screenshots');

export async function screenshot(page: Page, name: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), animations: 'disabled' });
}

// No finding that keeps people out.
export async function expectAccessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  expect(serious.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join('\n')}`)).toEqual([]);
}

export async function expectNoSidewaysScrolling(page: Page): Promise<void> {
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
}
