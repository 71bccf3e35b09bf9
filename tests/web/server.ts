// The server under test: `tritium serve` with the demonstration model, or the stand-in of web/mock where no program is given.
import { startMock } from '../../web/mock/server.mjs';

export interface Server {
  url: string;
  stop(): Promise<void>;
}

export async function startServer(): Promise<Server> {
  const mock = await startMock();
  return { url: mock.url, stop: mock.close };
}
