// Server-sent events as the HTML standard describes them.
export interface ServerEvent {
  name: string;
  data: unknown;
}

// Text of a stream, cut anywhere, to events whose data are JSON.
export class EventParser {
  private rest = '';
  private name = '';
  private data: string[] = [];
  lastId = '';
  retryMs = 0;

  push(chunk: string): ServerEvent[] {
    const events: ServerEvent[] = [];
    const lines = (this.rest + chunk).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? '';
    for (const line of lines) {
      if (line === '') this.finish(events);
      else this.field(line);
    }
    return events;
  }

  private field(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'data') this.data.push(value);
    else if (field === 'event') this.name = value;
    else if (field === 'id') this.lastId = value;
    else if (field === 'retry' && /^\d+$/.test(value)) this.retryMs = Number(value);
  }

  private finish(events: ServerEvent[]): void {
    if (this.data.length > 0) {
      try {
        events.push({ name: this.name || 'message', data: JSON.parse(this.data.join('\n')) as unknown });
      } catch {
        // Not for us.
      }
    }
    this.name = '';
    this.data = [];
  }
}
