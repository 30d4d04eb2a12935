import { assert } from "../base/assert.ts";
import { decodeState, encodeState } from "../base/state-text.ts";
import type { DecisionRecord, LoggedCall } from "./decision-log.ts";
import type { PoolState } from "./pool-state.ts";

/** What the log of a pool says, as far as it was written down. */
export interface WrittenDecisions {
  /** Of the pool's life: a pool that replays the records has to have the same. */
  readonly epoch: string;
  readonly records: readonly DecisionRecord[];
  /** False: the log was longer than its text was allowed to be, and its latest calls are missing. */
  readonly isWhole: boolean;
}

/** One line of a log: its head, then of each record where the pool stood and what it was told from there. */
type DecisionLine =
  | { readonly kind: "log"; readonly epoch: string }
  | { readonly kind: "snapshot"; readonly snapshot: PoolState }
  | ({ readonly kind: "call" } & LoggedCall)
  | { readonly kind: "end" };

/**
 * Writes a log as lines of plain state, each with its line break, made only as they are taken. At
 * `charactersMax` it stops: without its last line, `end`, a log is not whole.
 */
export function* encodeDecisions(
  log: { readonly epoch: string; readonly records: readonly DecisionRecord[] },
  charactersMax: number,
): Generator<string, void, undefined> {
  let characters = 0;
  for (const line of linesOf(log)) {
    const text = `${encodeState(line)}\n`;
    characters += text.length;
    if (characters > charactersMax) return;
    yield text;
  }
}

/** Reads what `encodeDecisions` wrote; throws on any other text. */
export function decodeDecisions(text: string): WrittenDecisions {
  const lines = text.split("\n").filter((line) => line !== "");
  let epoch: string | undefined;
  let isWhole = false;
  const records: { snapshot: PoolState; calls: LoggedCall[] }[] = [];
  for (const written of lines) {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the text is our own
    const line = decodeState(written) as DecisionLine;
    switch (line.kind) {
      case "log":
        ({ epoch } = line);
        break;
      case "snapshot":
        records.push({ snapshot: line.snapshot, calls: [] });
        break;
      case "call": {
        const { kind: _, ...logged } = line;
        const record = records.at(-1);
        assert(record !== undefined, "a call comes after the snapshot that it starts from");
        record.calls.push(logged);
        break;
      }
      case "end":
        isWhole = true;
        break;
    }
  }
  assert(epoch !== undefined, "a log begins with its head");
  return { epoch, records, isWhole };
}

function* linesOf(log: {
  readonly epoch: string;
  readonly records: readonly DecisionRecord[];
}): Generator<DecisionLine, void, undefined> {
  yield { kind: "log", epoch: log.epoch };
  for (const { snapshot, calls } of log.records) {
    yield { kind: "snapshot", snapshot };
    for (const logged of calls) yield { kind: "call", ...logged };
  }
  yield { kind: "end" };
}
