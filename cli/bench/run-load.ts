import type { AnswerEnd } from "./answer-end.ts";
import type { LoadArrival } from "./load-tenant.ts";
import type { LoadRecord } from "./load-record.ts";

/** The time that a load keeps to. */
export interface LoadClock {
  readNowMs(): number;
  /** Comes back at that instant or later, or when the signal aborts. */
  waitUntil(atMs: number, signal: AbortSignal): Promise<void>;
}

export interface LoadOptions {
  readonly arrivals: Iterable<LoadArrival>;
  readonly clock: LoadClock;
  /** Sends a request and comes back when its answer has ended. Never rejects. */
  readonly send: (
    arrival: LoadArrival,
    onOutput: (atMs: number) => void,
    signal: AbortSignal,
  ) => Promise<AnswerEnd>;
  /** So many requests are under way at most; further ones wait here, their clock running. */
  readonly concurrencyMax: number;
  /** Stops the load: nothing more is sent, and what is under way is given up. */
  readonly signal: AbortSignal;
  /** Is given every request that has ended, in that order. */
  readonly onRecord: (record: LoadRecord) => void;
  readonly onSent?: (sent: { readonly underWay: number; readonly latenessMs: number }) => void;
}

/** How a load went as far as the side that makes it is concerned. */
export interface LoadEnd {
  /** The instant on the clock from which all are due. */
  readonly beganAtMs: number;
  readonly endedAtMs: number;
  readonly sent: number;
  /** Requests that were due while as many as may were under way. */
  readonly held: number;
  readonly isStopped: boolean;
}

/**
 * Sends requests when they are due, whether earlier ones have been answered or not: an open loop. A request
 * that is sent late, since this side is slow or has too many under way, is as late as the server's fault
 * would be: its durations count from when it was due.
 */
export async function runLoad(options: LoadOptions): Promise<LoadEnd> {
  const { clock, signal, concurrencyMax, onSent } = options;
  const beganAtMs = clock.readNowMs();
  const underWay = new Set<Promise<void>>();
  let onFree: (() => void) | undefined;
  let sent = 0;
  let held = 0;
  for (const arrival of options.arrivals) {
    const dueAtMs = beganAtMs + arrival.atMs;
    await clock.waitUntil(dueAtMs, signal);
    if (underWay.size >= concurrencyMax && !signal.aborted) {
      held += 1;
      await new Promise<void>((resolve) => (onFree = resolve));
    }
    if (signal.aborted) break;
    const request = follow(options, arrival, dueAtMs).finally(() => {
      underWay.delete(request);
      onFree?.();
    });
    underWay.add(request);
    sent += 1;
    onSent?.({ underWay: underWay.size, latenessMs: Math.max(0, clock.readNowMs() - dueAtMs) });
  }
  await Promise.all(underWay);
  return { beganAtMs, endedAtMs: clock.readNowMs(), sent, held, isStopped: signal.aborted };
}

async function follow(
  { clock, send, signal, onRecord }: LoadOptions,
  arrival: LoadArrival,
  dueAtMs: number,
): Promise<void> {
  const sentAtMs = clock.readNowMs();
  let ttftMs: number | undefined;
  let lastAtMs = 0;
  const gapsMs: number[] = [];
  const onOutput = (atMs: number) => {
    if (ttftMs === undefined) ttftMs = atMs - dueAtMs;
    else gapsMs.push(atMs - lastAtMs);
    lastAtMs = atMs;
  };
  const end = await send(arrival, onOutput, signal);
  const chunks = ttftMs === undefined ? 0 : gapsMs.length + 1;
  const counted = end.kind === "answered" ? end : undefined;
  onRecord({
    index: arrival.index,
    tenantIndex: arrival.tenantIndex,
    dueAtMs,
    sentAtMs,
    endedAtMs: clock.readNowMs(),
    end,
    ttftMs,
    gapsMs,
    inputTokens: counted?.inputTokens ?? arrival.promptTokens,
    outputTokens: counted?.outputTokens ?? chunks,
  });
}
