// The server under test: `tritium serve` with the demonstration model, one that runs already (TRITIUM_SERVER), or the stand-in of web/mock
// where there is no program.
import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startMock } from '../../web/mock/server.mjs';

export interface Server {
  url: string;
  real: boolean;
  stop(): Promise<void>;
}

export async function startServer(): Promise<Server> {
  const given = process.env['TRITIUM_SERVER'];
  if (given) return { url: given, real: true, stop: async () => undefined };
  const binary = process.env['TRITIUM_BINARY'];
  if (binary) return startTritium(binary);
  const mock = await startMock();
  return { url: mock.url, real: false, stop: mock.close };
}

async function startTritium(binary: string): Promise<Server> {
  const data = mkdtempSync(join(tmpdir(), 'tritium-web-'));
  const child = spawn(binary, ['serve', '--port', '0', '--data', data, '--drain-seconds', '0'], { stdio: ['ignore', 'pipe', 'pipe'] });
  const url = await addressOf(child);
  return {
    url,
    real: true,
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      await ended;
      rmSync(data, { recursive: true, force: true });
    },
  };
}

// The first address in what it says.
function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    const listen = (chunk: Buffer): void => {
      said += chunk.toString();
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
      if (url) resolve(url);
    };
    child.stdout?.on('data', listen);
    child.stderr?.on('data', listen);
    child.once('exit', (code) => reject(new Error(`tritium serve ended with ${code}: ${said}`)));
  });
}
