// Dialogs: the browser's own element keeps the focus inside and gives it back.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { apiKey, setApiKey, type Video } from '../api';
import { t } from '../i18n';
import { isOver } from '../jobs';
import { shortPrompt } from './announcer';

interface DialogProps {
  title: string;
  wide?: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, wide, onClose, children }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      // What was there before may be gone, with the clip that was deleted.
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      else document.getElementById('clips-title')?.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? 'wide' : ''}
      aria-label={title}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose();
      }}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2>{title}</h2>
          <button type="button" class="quiet" onClick={onClose}>
            {t('clip.close')}
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}

export function ConfirmDelete({ video, onDelete, onKeep }: { video: Video; onDelete: () => void; onKeep: () => void }) {
  return (
    <Dialog title={t('confirm.delete_title')} onClose={onKeep}>
      <p>{t('confirm.delete_text', { prompt: shortPrompt(video) })}</p>
      {!isOver(video) && <p>{t('confirm.delete_running')}</p>}
      <div class="row end">
        <button type="button" autofocus onClick={onKeep}>
          {t('confirm.keep')}
        </button>
        <button type="button" class="danger" onClick={onDelete}>
          {t('job.delete')}
        </button>
      </div>
    </Dialog>
  );
}

export function KeyDialog({ refused, onClose }: { refused: boolean; onClose: (changed: boolean) => void }) {
  const [value, setValue] = useState('');
  const had = apiKey() !== '';
  const use = (key: string): void => {
    setApiKey(key);
    onClose(true);
  };
  return (
    <Dialog title={t('key.title')} onClose={() => onClose(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (value.trim()) use(value);
        }}
      >
        <p>{t('key.text')}</p>
        {refused && had && (
          <p class="finding error" role="alert">
            {t('key.wrong')}
          </p>
        )}
        <label class="field">
          <span>{t('key.label')}</span>
          <input
            type="password"
            autocomplete="off"
            autofocus
            required
            value={value}
            onInput={(event) => setValue(event.currentTarget.value)}
          />
        </label>
        <div class="row end">
          {had && (
            <button type="button" onClick={() => use('')}>
              {t('key.forget')}
            </button>
          )}
          <button type="button" onClick={() => onClose(false)}>
            {t('key.later')}
          </button>
          <button type="submit" class="primary">
            {t('key.use')}
          </button>
        </div>
      </form>
    </Dialog>
  );
}
