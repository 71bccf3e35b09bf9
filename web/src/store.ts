// A value that components watch.
import { useEffect, useState } from 'preact/hooks';

export class Store<T> {
  private listeners = new Set<() => void>();
  constructor(private current: T) {}

  get value(): T {
    return this.current;
  }
  set value(next: T) {
    if (Object.is(next, this.current)) return;
    this.current = next;
    for (const listener of [...this.listeners]) listener();
  }
  update(change: (value: T) => T): void {
    this.value = change(this.current);
  }
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useStore<T>(store: Store<T>): T {
  const [, redraw] = useState(0);
  useEffect(() => {
    const seen = store.value;
    const off = store.subscribe(() => redraw((n) => n + 1));
    if (!Object.is(seen, store.value)) redraw((n) => n + 1);
    return off;
  }, [store]);
  return store.value;
}
