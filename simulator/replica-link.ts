import { ReportSchedule } from "../gpu-backend/engine/report-schedule.ts";
import { REPORT_INTERVAL_MS } from "../src/protocol/engine-api.ts";
import type { ReplicaHello, ReplicaReport } from "../src/protocol/engine-api.ts";
import { ReplicaId } from "../src/protocol/ids.ts";
import type { Random } from "../src/base/random.ts";
import type { ReplicaEvent, ReplicaRequest } from "./replica-request.ts";
import type { SimulatedReplicaOptions } from "./simulated-replica.ts";
import { SimulatedReplica } from "./simulated-replica.ts";
import type { World } from "./world.ts";

/** Who hears what a replica says: of its requests, and of itself. */
export interface ReplicaListener {
  events(replicaId: ReplicaId, events: readonly ReplicaEvent[]): void;
  connected(hello: ReplicaHello): void;
  reported(replicaId: ReplicaId, report: ReplicaReport): void;
  disconnected(replicaId: ReplicaId): void;
}

/** What may happen to reports on their way; probabilities of each one. */
export interface ReportFaults {
  readonly lostRatio: number;
  readonly lateRatio: number;
  /** How late a late one is at most. */
  readonly lateMsMax: number;
  readonly repeatedRatio: number;
}

const NO_REPORT_FAULTS: ReportFaults = {
  lostRatio: 0,
  lateRatio: 0,
  lateMsMax: 0,
  repeatedRatio: 0,
};

export interface ReplicaLinkOptions {
  readonly world: World;
  readonly replica: Omit<SimulatedReplicaOptions, "world" | "onEvents" | "onChange">;
  readonly listener: ReplicaListener;
  /** Of every message, either way. */
  readonly delayMs: number;
  readonly reportFaults?: ReportFaults;
}

/**
 * The network between a gateway and one replica: requests there, tokens back, and the connection over
 * which the replica reports on change and on every heartbeat. All of it can fail.
 */
export class ReplicaLink {
  readonly replica: SimulatedReplica;
  readonly replicaId: ReplicaId;
  readonly #options: ReplicaLinkOptions;
  readonly #random: Random;
  #isConnected = false;
  #isBlackHole = false;
  #isMute = false;
  /** Requests whose streams lost something and that have not ended at the replica. */
  readonly #tornIds = new Set<string>();
  /** Counts connections, so that what was sent on an old one is not heard on the next. */
  #connection = 0;
  #sequence = 0;
  #schedule = new ReportSchedule();
  /** When the timer of the next report ends; `Infinity` without one. */
  #timerAtMs = Infinity;

  constructor(options: ReplicaLinkOptions) {
    const { world, listener } = options;
    this.#options = options;
    this.replicaId = ReplicaId.parse(options.replica.endpointUrl);
    this.#random = world.randomFor(`reports of ${this.replicaId}`);
    this.replica = new SimulatedReplica({
      ...options.replica,
      world,
      onEvents: (events) => {
        const heard = this.#streamed(events);
        if (heard.length === 0) return;
        world.after(options.delayMs, () => listener.events(this.replicaId, heard));
      },
      onChange: () => {
        if (!this.#isConnected) return;
        this.#schedule.changed(world.nowMs);
        this.#armReport();
      },
    });
  }

  /** Sends a request; where no process listens, or to a poisonous one, it comes back as lost. */
  send(request: ReplicaRequest): void {
    const { world, delayMs, listener } = this.#options;
    world.after(delayMs, () => {
      if (this.#isBlackHole) return;
      if (request.isPoisonous !== true && this.replica.submit(request)) return;
      world.after(delayMs, () =>
        listener.events(this.replicaId, [{ kind: "lost", id: request.id }]),
      );
    });
  }

  cancel(requestId: string): void {
    const { world, delayMs } = this.#options;
    world.after(delayMs, () => {
      if (!this.#isBlackHole) this.replica.cancel(requestId);
    });
  }

  /** The replica dials in. Nothing happens when it is connected, or not there. */
  connect(): void {
    if (this.#isConnected || !this.replica.isUp) return;
    const { world, delayMs, listener } = this.#options;
    this.#isConnected = true;
    this.#connection += 1;
    this.#sequence = 0;
    this.#schedule = new ReportSchedule();
    this.#timerAtMs = Infinity;
    const connection = this.#connection;
    this.replica.tellPrefixesAnew();
    const { hello } = this.replica;
    world.after(delayMs, () => {
      if (connection === this.#connection) listener.connected(hello);
    });
    this.#armReport();
  }

  /** The connection breaks; requests live on. */
  disconnect(): void {
    if (!this.#isConnected) return;
    const { world, delayMs, listener } = this.#options;
    this.#isConnected = false;
    this.#connection += 1;
    const connection = this.#connection;
    world.after(delayMs, () => {
      if (connection === this.#connection) listener.disconnected(this.replicaId);
    });
  }

  /** Requests vanish on their way, and so does what the replica says of them; its reports do not. */
  setBlackHole(isBlackHole: boolean): void {
    this.#isBlackHole = isBlackHole;
  }

  /** Reports get lost while the connection seems to be well. */
  setMute(isMute: boolean): void {
    this.#isMute = isMute;
  }

  /** What gets through: of a stream that a black hole has torn nothing does, ever again. */
  #streamed(events: readonly ReplicaEvent[]): readonly ReplicaEvent[] {
    if (!this.#isBlackHole && this.#tornIds.size === 0) return events;
    if (this.#isBlackHole) for (const { id } of events) this.#tornIds.add(id);
    const heard = events.filter(({ id }) => !this.#tornIds.has(id));
    for (const { id, kind } of events) if (kind !== "token") this.#tornIds.delete(id);
    return heard;
  }

  /** Sees to it that the next report is sent when it is due. */
  #armReport(): void {
    const { world } = this.#options;
    const atMs = Math.max(world.nowMs, this.#schedule.dueAtMs());
    if (atMs >= this.#timerAtMs) return;
    this.#timerAtMs = atMs;
    const connection = this.#connection;
    world.at(atMs, () => {
      if (connection !== this.#connection || this.#timerAtMs !== atMs) return;
      this.#timerAtMs = Infinity;
      // A process that does not run does not report either; once it does, that is a change.
      if (!this.replica.isUp || this.replica.isFrozen) return;
      this.#report();
      this.#schedule.sent(world.nowMs);
      this.#armReport();
    });
  }

  #report(): void {
    const { delayMs, reportFaults = NO_REPORT_FAULTS } = this.#options;
    this.#sequence += 1;
    const report = this.replica.report(this.#sequence);
    // Drawn even where nothing can fail, so that faults change nothing else of a history.
    const isLost = this.#random() < reportFaults.lostRatio;
    const isLate = this.#random() < reportFaults.lateRatio;
    const isRepeated = this.#random() < reportFaults.repeatedRatio;
    if (this.#isMute || isLost) return;
    const lateMs = isLate ? this.#random() * reportFaults.lateMsMax : 0;
    this.#deliver(report, delayMs + lateMs);
    if (isRepeated) this.#deliver(report, delayMs + this.#random() * REPORT_INTERVAL_MS);
  }

  #deliver(report: ReplicaReport, afterMs: number): void {
    const { world, listener } = this.#options;
    const connection = this.#connection;
    world.after(afterMs, () => {
      if (connection === this.#connection) listener.reported(this.replicaId, report);
    });
  }
}
