// What happens to jobs, as it happens: the server's event stream, read with fetch because EventSource can send no key. Comes back by
// itself after every loss, with the id of the last event; says when it is not connected, so that the caller can ask instead.
import { ApiError, call } from './api';
import { EventParser, type ServerEvent } from './event_parser';

export interface EventHandlers {
  event: (event: ServerEvent) => void;
  connected: (connected: boolean) => void;
}

const slowestRetryMs = 15_000;
// The server writes at least a comment every 15 s; silence for longer is a dead connection that nobody closed.
const silenceMs = 45_000;

export class EventFeed {
  private stopped = false;
  private paused = false;
  private parser = new EventParser();
  private abort = new AbortController();
  private wake: (() => void) | undefined;

  constructor(
    private readonly path: string,
    private readonly handlers: EventHandlers,
  ) {
    void this.run();
  }

  stop(): void {
    this.stopped = true;
    this.abort.abort();
    this.wake?.();
  }

  // Connects anew now: with another key, or when the machine has a network again.
  restart(): void {
    this.abort.abort();
    this.wake?.();
  }

  pause(): void {
    this.paused = true;
    this.abort.abort();
  }
  resume(): void {
    if (!this.paused) return;
    this.paused = false;
    this.wake?.();
  }

  private async run(): Promise<void> {
    let failures = 0;
    while (!this.stopped) {
      this.abort = new AbortController();
      let unauthorized = false;
      try {
        await this.read(() => {
          failures = 0;
          this.handlers.connected(true);
        });
      } catch (error) {
        unauthorized = error instanceof ApiError && error.status === 401;
      }
      if (this.stopped) return;
      if (this.paused) {
        await this.sleep();
        continue;
      }
      this.handlers.connected(false);
      failures += 1;
      const base = this.parser.retryMs || 1_000;
      // Without a key trying again is of no use: restart() comes with one.
      await this.sleep(unauthorized ? undefined : Math.min(slowestRetryMs, base * 2 ** (failures - 1)) * (0.75 + Math.random() / 2));
    }
  }

  // Until the time is over or somebody wakes it.
  private sleep(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  private async read(opened: () => void): Promise<void> {
    const headers: Record<string, string> = { accept: 'text/event-stream' };
    if (this.parser.lastId) headers['last-event-id'] = this.parser.lastId;
    const response = await call(this.path, { headers, signal: this.abort.signal, cache: 'no-store' });
    const reader = response.body?.getReader();
    if (!reader) return;
    opened();
    const decoder = new TextDecoder();
    let timer = setTimeout(() => this.abort.abort(), silenceMs);
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => this.abort.abort(), silenceMs);
        for (const event of this.parser.push(decoder.decode(value, { stream: true }))) this.handlers.event(event);
      }
    } finally {
      clearTimeout(timer);
    }
  }
}
