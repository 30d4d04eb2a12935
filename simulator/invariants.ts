import { assert } from "../src/base/assert.ts";
import { ttftLimitMs } from "../src/slo/deadlines.ts";
import type { PoolDispatcher } from "./pool-dispatcher.ts";
import type { SimulatedCall } from "./simulated-call.ts";
import type { Simulation } from "./simulation.ts";

/** Until a verdict has found its way: the wake of a timer and two messages that cross. */
const VERDICT_GRACE_MS = 50;
/** Engines are looked into once in so many events; nothing else is as expensive. */
const EVENTS_PER_ENGINE_CHECK = 25;

/**
 * The laws of a world, looked at after every event: requests end once, slots and blocks are conserved,
 * nobody waits beyond its time without a verdict. That tokens come once, in order and from the replica
 * in use, calls assert themselves.
 */
export class InvariantWatch {
  readonly #simulation: Simulation;
  readonly #dispatcher: PoolDispatcher;
  #checks = 0;
  #calls = -1;

  constructor(simulation: Simulation, dispatcher: PoolDispatcher) {
    this.#simulation = simulation;
    this.#dispatcher = dispatcher;
  }

  /** Throws when a law does not hold at this moment. */
  check(): void {
    const { gateway, links } = this.#simulation;
    this.#checks += 1;
    // A pool changes only when it is called; most events are steps of engines.
    if (this.#dispatcher.calls !== this.#calls) this.#dispatcher.checkInvariants();
    this.#calls = this.#dispatcher.calls;
    gateway.checkInvariants();
    for (const call of gateway.calls()) if (call.attempts.size === 0) this.#checkPatience(call);
    if (this.#checks % EVENTS_PER_ENGINE_CHECK > 0) return;
    for (const { replica } of links) replica.checkInvariants();
  }

  /** Throws unless everything has come to an end. */
  checkIdle(): void {
    const { gateway, links } = this.#simulation;
    const { queued, leases } = this.#dispatcher.status;
    assert(gateway.openCalls === 0, "every request has ended");
    assert(queued === 0 && leases === 0, "after the last fault the pool becomes idle");
    for (const { replica } of links) {
      replica.checkInvariants();
      assert(replica.requests === 0, "after the last fault every replica becomes idle");
    }
  }

  /** What is late is refused, not kept: its client has better things to do. */
  #checkPatience({ options, dispatches }: SimulatedCall): void {
    const { tenant, spec, arrivedAtMs } = options;
    const limitMs = ttftLimitMs(tenant.targets, spec.promptTokens);
    if (!tenant.isStreamed || dispatches > 0 || limitMs === Infinity) return;
    const waitedMs = this.#simulation.world.nowMs - arrivedAtMs;
    assert(
      waitedMs <= limitMs + VERDICT_GRACE_MS,
      "nobody waits past a deadline without a verdict",
    );
  }
}
