// The form for a new clip.
import { useEffect, useState } from 'preact/hooks';
import { ApiError, type Model } from '../api';
import { draft, filesOf, startOver } from '../draft';
import { bodyOf } from '../encode';
import { bytes } from '../format';
import { t } from '../i18n';
import { actions } from '../jobs';
import { filesIn } from '../media';
import { useStore } from '../store';
import { note, report } from './announcer';
import { Inputs, takeFiles } from './inputs';
import { PlanSummary, PlanView, usePlan } from './plan_view';
import { findingsOf, PromptEditor } from './prompt_editor';
import { Settings } from './settings';

export function Composer({ model }: { model: Model | undefined }) {
  const now = useStore(draft);
  const plan = usePlan();
  const [sending, setSending] = useState(false);
  const count = Math.max(1, Number(now.settings.outputs) || 1);
  const blocked = findingsOf(now).some((finding) => finding.level === 'error');

  const submit = async (): Promise<void> => {
    if (sending || blocked) return;
    setSending(true);
    try {
      await actions.create(bodyOf(draft.value));
      note(t('create.sent'));
    } catch (error) {
      const size = filesOf(now).reduce((sum, input) => sum + (input.file?.size ?? 0), 0);
      if (error instanceof ApiError && error.status === 0 && size > 32 * 1024 * 1024)
        note(t('error.unreachable_large', { size: bytes(size) }), true);
      else report(error);
    }
    setSending(false);
  };

  useEffect(() => {
    const paste = (event: ClipboardEvent): void => {
      const files = filesIn(event.clipboardData);
      if (files.length === 0 || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      takeFiles(files);
    };
    document.addEventListener('paste', paste);
    return () => document.removeEventListener('paste', paste);
  }, []);

  return (
    <form
      id="create"
      class="panel composer"
      aria-labelledby="create-title"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        takeFiles(filesIn(event.dataTransfer));
      }}
    >
      <div class="row between">
        <h2 id="create-title">{t('create.title')}</h2>
        <button type="button" class="quiet" onClick={startOver}>
          {t('create.reset')}
        </button>
      </div>
      <PromptEditor tokens={plan.plan?.text_tokens} seconds={plan.plan?.seconds} />
      <Inputs />
      <Settings model={model} />
      <PlanView {...plan} />
      <div class="submit">
        <button type="submit" class="primary" title={t('create.shortcut')} disabled={sending || blocked}>
          {sending ? t('create.submitting') : count > 1 ? t('create.submit_n', { count }) : t('create.submit')}
        </button>
        <PlanSummary {...plan} />
      </div>
    </form>
  );
}
