// The addresses of this page: "/" and "/clips/ID". The server knows the same two (src/server/ui).
import { Store } from './store';

export interface Route {
  clip: string | null;
}

function parse(path: string): Route {
  const clip = /^\/clips\/([A-Za-z0-9_-]{1,64})$/.exec(path)?.[1];
  return { clip: clip ?? null };
}

export const route = new Store<Route>(parse(location.pathname));
window.addEventListener('popstate', () => (route.value = parse(location.pathname)));

export function openClip(id: string): void {
  history.pushState(null, '', `/clips/${encodeURIComponent(id)}`);
  route.value = { clip: id };
}

// Not by going back: that would move the focus to what the address before named.
export function closeClip(): void {
  if (route.value.clip === null) return;
  history.replaceState(null, '', '/');
  route.value = { clip: null };
}
