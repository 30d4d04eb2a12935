import type { WaitQueue } from "../admission/wait-queue.ts";
import type { Calibration } from "../forecast/calibration.ts";
import type { ReplicaSet } from "../replicas/replica-set.ts";
import { TPOT_TOKENS_MIN } from "../slo/deadlines.ts";
import type { Capacity } from "./capacity.ts";
import type { FailingTenants } from "./failing-tenants.ts";
import type { IntakeParts } from "./intake.ts";
import { chargedWork, costMsOf } from "./intake.ts";
import { judgedPaceMs } from "./foreseen-pace.ts";
import type { Lease, LeaseBook } from "./lease-book.ts";
import { moveCharge } from "./lease-book.ts";
import type { Mechanisms } from "./mechanisms.ts";
import type { Outcome } from "./offer.ts";
import type { PoolTotals } from "./pool-totals.ts";
import type { PromptTotals } from "./prompt-totals.ts";
import { isMute } from "./prospects.ts";
import type { ReplicaWaits } from "./replica-waits.ts";
import type { TenantBook } from "./tenant-book.ts";
import { claimedPaceMs } from "./claimed-pace.ts";

/** What learns from how requests fare. */
export interface TeacherParts {
  readonly intake: IntakeParts;
  readonly replicas: ReplicaSet;
  readonly leases: LeaseBook;
  readonly tenants: TenantBook;
  readonly failingTenants: FailingTenants;
  readonly queue: WaitQueue;
  readonly waits: ReplicaWaits;
  readonly mechanisms: Mechanisms;
  readonly totals: PoolTotals;
  readonly promptTotals: PromptTotals;
  capacity(nowMs: number): Capacity | undefined;
  rateMsPerMs(nowMs: number): number;
}

/** Holds what was foreseen of a request against what came, and tells everybody who can learn from it. */
export class Teacher {
  readonly #parts: TeacherParts;
  readonly #calibration: Calibration;

  constructor(parts: TeacherParts, calibration: Calibration) {
    this.#parts = parts;
    this.#calibration = calibration;
  }

  /** The first token came so long after the dispatch. */
  started(lease: Lease, firstTokenAfterMs: number, nowMs: number): void {
    const actualMs = Math.max(0, firstTokenAfterMs);
    this.#parts.totals.started(lease, actualMs);
    if (!isAsForeseen(lease)) return;
    this.#calibration.learn("ttft", { ...lease.foreseen.ttft, actualMs }, nowMs);
  }

  /** The request has ended, well or not. */
  ended(lease: Lease, outcome: Outcome, nowMs: number): void {
    const isOver = outcome.kind === "completed";
    if (lease.startedAtMs === undefined && outcome.firstTokenAfterMs !== undefined) {
      this.started(lease, outcome.firstTokenAfterMs, nowMs);
    } else if (
      lease.startedAtMs === undefined &&
      lease.isStreamed &&
      !isOver &&
      isAsForeseen(lease)
    ) {
      // It had none by then, so it would have taken at least as long.
      const sample = { ...lease.foreseen.ttft, atLeastMs: nowMs - lease.dispatchedAtMs };
      this.#calibration.learnCensored("ttft", sample, nowMs);
    }
    this.#learnTokens(lease, outcome, isOver, nowMs);
    this.#judgeReplica(lease, outcome, nowMs);
    this.#correctCost(lease, outcome, nowMs);
    this.#parts.totals.ended(lease, outcome, nowMs);
    this.#parts.promptTotals.ended(lease, outcome, this.#parts.capacity(nowMs));
    const { attainment } = outcome;
    if (attainment === undefined) return;
    this.#parts.tenants.count(
      lease.tenantId,
      { kind: "ended", attainment, costMs: lease.costMs },
      nowMs,
    );
  }

  #learnTokens(lease: Lease, outcome: Outcome, isOver: boolean, nowMs: number): void {
    const { intake, replicas, waits } = this.#parts;
    const { promptTokens, cachedTokens, outputTokens, decodeMs } = outcome;
    const { promptBytes } = lease;
    if (cachedTokens !== undefined && !lease.isLost && lease.prefill === undefined) {
      replicas.get(lease.replicaId)?.prefixes.learnHit(lease.foundTokens, cachedTokens);
    }
    if (promptTokens !== undefined) {
      intake.tokenEstimate.learn({ promptBytes, promptTokens }, nowMs);
    }
    // Whoever goes on with an answer tells how long it became.
    if (outputTokens === undefined || outcome.isInterrupted === true) return;
    const isCensored = !isOver || outputTokens >= (lease.outputTokensMax ?? Infinity);
    const allTokens = lease.emittedTokens + outputTokens;
    intake.outputLengths.learn(lease, allTokens, nowMs, { isCensored });
    waits.forget();
    if (isOver && decodeMs !== undefined && outputTokens >= TPOT_TOKENS_MIN) {
      const { tpot } = lease.foreseen;
      const paceMs = decodeMs / (outputTokens - 1);
      this.#judgeClaim(lease, paceMs, nowMs);
      const actualMs = judgedPaceMs(tpot, paceMs);
      if (actualMs === undefined) return;
      this.#calibration.learn("tpot", { ...tpot, actualMs }, nowMs);
      const { speedRatio } = lease;
      if (!lease.isLost) {
        replicas
          .get(lease.replicaId)
          ?.learn({ predictedMs: tpot.predictedMs, actualMs, speedRatio }, nowMs);
      }
    }
  }

  /** Holds what the replica tells of its steps against the pace of one who ran there, and still counts there. */
  #judgeClaim(lease: Lease, actualMs: number, nowMs: number): void {
    const { mechanisms, replicas } = this.#parts;
    const replica = replicas.get(lease.replicaId);
    const sentMs = lease.claimedPaceMs;
    if (!mechanisms.doubt || replica === undefined || lease.isLost || sentMs === undefined) return;
    const endedMs = claimedPaceMs(replica, lease, nowMs);
    if (endedMs !== undefined) replica.learn({ claimedMs: [sentMs, endedMs], actualMs }, nowMs);
  }

  #judgeReplica(lease: Lease, { kind }: Outcome, nowMs: number): void {
    const { mechanisms, replicas, failingTenants } = this.#parts;
    if (lease.isLost || !mechanisms.ejection) return;
    const replica = replicas.get(lease.replicaId);
    const isAnswer = kind === "completed" || kind === "upstream-refused";
    if (isAnswer && replica !== undefined) replica.state.answeredAtMs = nowMs;
    if (kind === "completed") {
      failingTenants.succeeded(lease);
      replicas.succeeded(lease, nowMs);
    }
    // Whoever waits for a whole answer leaves one day, and says so of no replica.
    const isLeft = kind === "client-gone" && isMute(lease, replica, nowMs);
    if (kind !== "upstream-failed" && !isLeft) return;
    failingTenants.failed(lease);
    if (mechanisms.blame && failingTenants.isToBlame(lease.tenantId)) return;
    replicas.failed(lease, nowMs);
  }

  /**
   * What it cost is known only now; one that was never begun cost nothing. Of two copies the one that has
   * begun is paid for, and as long as none has, the one that is left may still be.
   */
  #correctCost(lease: Lease, outcome: Outcome, nowMs: number): void {
    const { queue, tenants, leases } = this.#parts;
    const capacity = this.#parts.capacity(nowMs);
    const { outputTokens } = outcome;
    const foreseenWork = chargedWork(lease, outputTokens ?? lease.outputTokens);
    const { promptTokens = foreseenWork.promptTokens, cachedTokens = foreseenWork.cachedTokens } =
      outcome;
    const hasBegun =
      lease.startedAtMs !== undefined || outputTokens !== undefined || outcome.kind === "completed";
    const twin = leases.twinOf(lease);
    if (twin !== undefined) moveCharge(hasBegun ? twin : lease, hasBegun ? lease : twin);
    if (!lease.isCharged) return;
    const actualMs = hasBegun
      ? costMsOf({ promptTokens, cachedTokens, outputTokens: foreseenWork.outputTokens }, capacity)
      : 0;
    const deltaMs = actualMs - lease.chargedMs;
    if (outcome.kind === "completed" && outputTokens !== undefined) {
      // By its length alone: what its prompt found cached is foreseen nowhere, and no surprise.
      tenants.foreseen(lease.tenantId, lease.costMs, nowMs);
      tenants.surprise(lease.tenantId, costMsOf(foreseenWork, capacity) - lease.chargedMs, nowMs);
    }
    queue.settle(lease.account, { chargedMs: lease.chargedMs, actualMs });
    if (lease.account.isInProfile) {
      tenants.correct(lease.tenantId, deltaMs, this.#parts.rateMsPerMs(nowMs), nowMs);
    }
  }
}

/** Of a prompt that was not computed where it was to be, another TTFT was foreseen than it has. */
function isAsForeseen({ prefill }: Lease): boolean {
  return prefill === undefined || prefill.isDone === true;
}
