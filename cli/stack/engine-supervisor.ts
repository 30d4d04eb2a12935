import { setTimeout as sleep } from "node:timers/promises";
import type { ChildPlan } from "./child.ts";
import { Child } from "./child.ts";
import { isPortTaken, parseReadyLine } from "./engine-child.ts";
import type { PortNeed } from "./ports.ts";
import { describeTakenPort } from "./ports.ts";
import { RESTARTS_MAX, RestartBudget } from "./restart-budget.ts";
import type { StackEvent } from "./stack-event.ts";
import { StackFailure } from "./stack-failure.ts";
import type { EnginePlan } from "./stack-plan.ts";

const REPORTED_TAIL_LINES = 5;

/**
 * Keeps one engine alive: starts it, and starts it again when it dies, until its restart budget is
 * spent. An engine that dies before it was ever ready is not tried again, since nothing would change.
 */
export class EngineSupervisor {
  readonly #plan: EnginePlan;
  readonly #portNeed: PortNeed;
  readonly #childPlan: Omit<ChildPlan, "onLine">;
  readonly #report: (event: StackEvent) => void;
  readonly #onLine: (line: string) => void;
  readonly #budget = new RestartBudget();
  readonly #stopping = new AbortController();
  #child: Child | undefined;
  #hasServed = false;

  constructor(wiring: {
    readonly plan: EnginePlan;
    readonly portNeed: PortNeed;
    readonly childPlan: Omit<ChildPlan, "onLine">;
    readonly report: (event: StackEvent) => void;
    readonly onLine: (line: string) => void;
  }) {
    this.#plan = wiring.plan;
    this.#portNeed = wiring.portNeed;
    this.#childPlan = wiring.childPlan;
    this.#report = wiring.report;
    this.#onLine = wiring.onLine;
  }

  /** Says whether the engine has been ready at least once. */
  get hasServed(): boolean {
    return this.#hasServed;
  }

  /** Runs until `stop` or `kill`; rejects with `StackFailure` once the engine is given up. */
  async run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const child = this.#start();
      // Each life of the engine begins when the one before it has ended.
      // oxlint-disable-next-line no-await-in-loop
      const { cause } = await child.exited;
      if (this.#stopping.signal.aborted) return;
      const delayMs = this.#decideRestart(child, cause);
      // oxlint-disable-next-line no-await-in-loop
      await sleep(delayMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
    }
  }

  /** Lets the engine finish and waits until it is gone. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#child?.stop();
  }

  /** Ends the engine at once. */
  kill(): void {
    this.#stopping.abort();
    this.#child?.kill();
  }

  #start(): Child {
    const { name, endpointUrl: url } = this.#plan;
    const child = new Child({
      ...this.#childPlan,
      onLine: (line) => {
        this.#onLine(line);
        const facts = parseReadyLine(line);
        if (facts === undefined) return;
        this.#hasServed = true;
        this.#report({ event: "engine-ready", name, url, ...facts });
      },
    });
    this.#child = child;
    if (child.pid !== undefined) {
      this.#report({ event: "engine-started", name, url, pid: child.pid });
    }
    return child;
  }

  /** Reports the death and returns how long to wait; throws if there is no next life. */
  #decideRestart(child: Child, cause: string): number {
    const { name } = this.#plan;
    if (child.tail.some(isPortTaken)) throw new StackFailure(describeTakenPort(this.#portNeed), []);
    if (!this.#hasServed) {
      throw new StackFailure(`Engine ${name} died before it was ready (${cause})`, child.tail);
    }
    const verdict = this.#budget.take(performance.now());
    if (verdict.kind === "give-up") {
      throw new StackFailure(`Engine ${name} died again and again (${cause})`, child.tail);
    }
    const { attempt, delayMs } = verdict;
    const logTail = child.tail.slice(-REPORTED_TAIL_LINES);
    const died = { name, cause, logTail, attempt, attemptsMax: RESTARTS_MAX, delayMs };
    this.#report({ event: "engine-died", ...died });
    return delayMs;
  }
}
