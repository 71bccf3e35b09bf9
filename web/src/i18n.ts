// Texts in the browser's language: Chinese where it comes first, otherwise English.
import { en, type MessageKey } from './messages.en';
import { zh } from './messages.zh';

export type { MessageKey } from './messages.en';

export const locale = navigator.language || 'en';
const chinese = /^zh\b/i.test(locale);
const messages: Record<MessageKey, string> = chinese ? zh : en;
document.documentElement.lang = chinese ? 'zh' : 'en';

export function t(key: MessageKey, values: Record<string, string | number> = {}): string {
  return messages[key].replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

// Of a name that the server gives: a stage it may know before this page does stays as it is.
export function stageName(stage: string): string {
  const key = `stage.${stage}`;
  return key in messages ? messages[key as MessageKey] : stage;
}
