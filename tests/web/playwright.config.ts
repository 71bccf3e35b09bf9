import { join } from 'node:path';
import { defineConfig } from '@playwright/test';

const output = process.env['TRITIUM_WEB_OUTPUT'] ?? '/tmp/tritium-web';

export default defineConfig({
  testDir: '.',
  outputDir: join(output, 'failures'),
  workers: 1,
  retries: 2, // a browser on a machine that has much else to do
  timeout: 90_000, // machines may have much else to do
  expect: { timeout: 20_000 },
  reporter: [['list']],
  use: {
    browserName: 'chromium',
    locale: 'en-US',
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env['TRITIUM_CHROMIUM'] ?? '/usr/bin/chromium',
      // Containers have neither a sandbox nor much of /dev/shm.
      args: ['--no-sandbox', '--disable-dev-shm-usage', '--autoplay-policy=no-user-gesture-required'],
    },
  },
  projects: [
    { name: 'units', testMatch: 'units.spec.ts' },
    { name: 'desktop', testMatch: ['flow.spec.ts', 'page.spec.ts'], use: { viewport: { width: 1360, height: 860 } } },
    { name: 'phone', testMatch: 'flow.spec.ts', use: { viewport: { width: 360, height: 740 }, hasTouch: true } },
  ],
});
