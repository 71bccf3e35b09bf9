// What the server would do, before it is asked to do it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { api, ApiError, type Plan } from '../api';
import { draft, filesOf, type Draft } from '../draft';
import { bodyOf } from '../encode';
import { bytes, duration } from '../format';
import { stageName, t } from '../i18n';
import { useStore } from '../store';
import { messageOf } from './announcer';

export interface PlanState {
  plan: Plan | null;
  error: ApiError | null;
  asking: boolean;
  large: boolean; // not asked by itself
  ask: () => void;
}

const pauseMs = 500;
const largeBytes = 24 * 1024 * 1024; // beyond it files are not sent for every change

function complete(now: Draft): boolean {
  return now.prompt.trim() !== '' && (now.mode === 'text' || filesOf(now).length > 0);
}

export function usePlan(): PlanState {
  const now = useStore(draft);
  const [state, setState] = useState({ plan: null as Plan | null, error: null as ApiError | null, asking: false });
  const abort = useRef<AbortController | null>(null);
  const large = filesOf(now).reduce((sum, input) => sum + (input.file?.size ?? 0), 0) > largeBytes;

  const ask = (): void => {
    abort.current?.abort();
    const mine = new AbortController();
    abort.current = mine;
    setState((before) => ({ ...before, asking: true }));
    api.plan(bodyOf(draft.value), mine.signal).then(
      (plan) => setState({ plan, error: null, asking: false }),
      (error: unknown) => {
        if (!mine.signal.aborted) setState({ plan: null, error: error instanceof ApiError ? error : null, asking: false });
      },
    );
  };
  useEffect(() => {
    abort.current?.abort();
    if (!complete(now)) {
      setState({ plan: null, error: null, asking: false });
      return;
    }
    setState((before) => ({ ...before, asking: !large }));
    if (large) return;
    const timer = setTimeout(ask, pauseMs);
    return () => clearTimeout(timer);
  }, [now]);
  return { ...state, large, ask };
}

function PlanTable({ plan }: { plan: Plan }) {
  const memories = plan.memories.filter((memory) => memory.budget_bytes > 0);
  return (
    <>
      <dl>
        <dt>{t('plan.clip')}</dt>
        <dd>
          {t('plan.clip_value', {
            width: plan.width,
            height: plan.height,
            frames: plan.frames,
            seconds: plan.seconds.toFixed(2),
            steps: plan.steps,
          })}
        </dd>
        <dt>{t('plan.time')}</dt>
        <dd>{t('plan.time_value', { time: duration(plan.expected_seconds) })}</dd>
        <dt>{t('plan.memory')}</dt>
        <dd>
          {memories.map((memory) => (
            <span key={memory.memory} class="memory">
              {t('plan.memory_value', { name: memory.memory, peak: bytes(memory.peak_bytes), budget: bytes(memory.budget_bytes) })}
              <meter min={0} max={memory.budget_bytes} value={memory.peak_bytes} aria-hidden="true" />
            </span>
          ))}
        </dd>
      </dl>
      <ul>
        {plan.adjustments.map((a) => (
          <li key={a.field} class="finding advice">
            {t('plan.adjusted', { field: a.field, from: a.from, to: a.to, reason: a.reason })}
          </li>
        ))}
        {plan.warnings.map((warning) => (
          <li key={warning} class="finding warning">
            {warning}
          </li>
        ))}
        {(plan.notes ?? []).map((noted) => (
          <li key={noted} class="finding advice">
            {noted}
          </li>
        ))}
      </ul>
      <details>
        <summary>{t('plan.stages')}</summary>
        <table>
          <tbody>
            {plan.stages.map((stage) => (
              <tr key={stage.stage}>
                <th scope="row">{stageName(stage.stage)}</th>
                <td>{stage.device}</td>
                <td class="number">{duration(stage.seconds + stage.load_seconds)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </>
  );
}

// A request is refused; a server that is busy or away says nothing about the request.
const verdict = (error: ApiError): string => t(error.status >= 400 && error.status < 429 ? 'plan.refused' : 'plan.unknown');

// The same in a few words, beside the button.
export function PlanSummary({ plan, error, asking }: PlanState) {
  if (error && error.status !== 401) return <span class="summary refused">{verdict(error)}</span>;
  if (!plan) return <span class="summary muted">{asking ? t('plan.waiting') : ''}</span>;
  const parts = [
    `${plan.width}×${plan.height}`,
    `${plan.seconds.toFixed(2)} s`,
    t('plan.time_value', { time: duration(plan.expected_seconds) }),
  ];
  return <span class={asking ? 'summary muted asking' : 'summary muted'}>{parts.join(' · ')}</span>;
}

export function PlanView({ plan, error, asking, large, ask }: PlanState) {
  return (
    <section class={asking ? 'plan asking' : 'plan'} aria-labelledby="plan-title" aria-busy={asking}>
      <h3 id="plan-title">{t('plan.title')}</h3>
      {!plan && !error && <p class="muted">{asking ? t('plan.waiting') : large ? t('plan.large') : t('plan.nothing')}</p>}
      {large && (
        <button type="button" class="chip" onClick={ask}>
          {t('plan.ask')}
        </button>
      )}
      {error && error.status !== 401 && (
        <div class="finding error" role="alert">
          <strong>{verdict(error)}</strong> {messageOf(error)}
        </div>
      )}
      {plan && <PlanTable plan={plan} />}
    </section>
  );
}
