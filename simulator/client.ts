import type { Random } from "../src/base/random.ts";
import type { Gateway } from "./gateway.ts";
import type { RequestRecord } from "./request-record.ts";
import type { ArrivalSpec } from "./workloads/arrival.ts";
import type { World } from "./world.ts";

/** What clients do when something goes wrong, or without any reason. */
export interface ClientBehaviour {
  /** After a refusal: give up, come back when told to, or at once. */
  readonly retry: "never" | "as-told" | "at-once";
  /** How often one request comes back. */
  readonly retriesMax: number;
  /** Share of requests whose client leaves at some moment of its own. */
  readonly leavesRatio: number;
  /** How long after its arrival such a client leaves at the latest. */
  readonly leavesAfterMsMax: number;
}

export const PATIENT_CLIENTS: ClientBehaviour = {
  retry: "never",
  retriesMax: 0,
  leavesRatio: 0,
  leavesAfterMsMax: 0,
};

/** A client that retries at once still has to receive the refusal and to send its request again. */
const AT_ONCE_MS = 10;

/** The clients of a workload: they send its requests, come back after refusals, and leave. */
export class Clients {
  readonly #world: World;
  readonly #gateway: Gateway;
  readonly #behaviour: ClientBehaviour;
  readonly #onRecord: (record: RequestRecord) => void;
  readonly #random: Random;

  constructor(options: {
    readonly world: World;
    readonly gateway: Gateway;
    readonly behaviour: ClientBehaviour;
    readonly onRecord: (record: RequestRecord) => void;
  }) {
    this.#world = options.world;
    this.#gateway = options.gateway;
    this.#behaviour = options.behaviour;
    this.#onRecord = options.onRecord;
    this.#random = options.world.randomFor("clients");
  }

  /** Sends every request at its instant; arrivals are in order of time. */
  send(arrivals: Iterator<ArrivalSpec>, index = 0): void {
    const next = arrivals.next();
    if (next.done === true) return;
    this.#world.at(next.value.atMs, () => {
      this.#open(next.value, index, 1);
      this.send(arrivals, index + 1);
    });
  }

  #open(spec: ArrivalSpec, index: number, tryNumber: number): void {
    const { leavesRatio, leavesAfterMsMax } = this.#behaviour;
    const leave = this.#gateway.open({ spec, index, tryNumber }, (record) => {
      this.#onRecord(record);
      this.#comeBack(record, index);
    });
    // Drawn for everybody, so that who leaves does not depend on how many were refused before.
    const isLeaving = this.#random() < leavesRatio;
    const leavesAfterMs = this.#random() * leavesAfterMsMax;
    if (isLeaving) this.#world.after(leavesAfterMs, leave);
  }

  #comeBack({ spec, tryNumber, rejection }: RequestRecord, index: number): void {
    const { retry, retriesMax } = this.#behaviour;
    if (rejection?.retryAfterMs === undefined || tryNumber > retriesMax) return;
    if (retry === "never") return;
    const waitMs = retry === "as-told" ? rejection.retryAfterMs : AT_ONCE_MS;
    this.#world.after(waitMs, () => this.#open(spec, index, tryNumber + 1));
  }
}
