import type { Dispatch, Offer, Outcome, PrefillOutcome, Prospects } from "../src/pool/offer.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import { toChain } from "../src/protocol/prompt-chain.ts";
import type { SaidLimit } from "../src/protocol/said-limit.ts";
import { FAILED } from "../src/slo/attainment.ts";
import { askAnew } from "./ask-anew.ts";
import type { Call } from "./call.ts";
import { startedAtMs } from "./call.ts";
import { clampOutput, fallBack } from "./degrade.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import { giveBackOnce } from "./give-back-once.ts";
import { logLine } from "./log.ts";
import { rejectionProblem } from "./refusal.ts";

/** A call's slot on a replica. */
export interface HeldLease {
  readonly dispatch: Dispatch;
  /** Says how it went with a prompt that another replica was to compute first. Never rejects. */
  prefilled(outcome: PrefillOutcome): Promise<void>;
  /** Says that the first token has come. Never rejects. */
  started(firstTokenAfterMs: number): Promise<void>;
  /** Says that the stream has paused for much too long. Never rejects. */
  stalled(): Promise<void>;
  /** Says what its server told of its limits. Never rejects. */
  limited(said: SaidLimit): Promise<void>;
  /**
   * Waits until the pool takes the slot back, which only what is beyond a guarantee can lose; false
   * when it never did. Never rejects.
   */
  onceDisplaced(): Promise<boolean>;
  /**
   * Asks what to hope for while no answer comes, of replicas that have not been asked; `undefined` when
   * the pool cannot be asked. Never rejects.
   */
  prospects(askedReplicaIds: readonly ReplicaId[]): Promise<Prospects | undefined>;
  /**
   * Asks for a second slot on another replica, of which whoever answers first makes use; `undefined`: the
   * pool has none to give. Never rejects.
   */
  hedge(): Promise<HeldLease | undefined>;
  /** Gives the slot back and says how it went. Never rejects; only the first call counts. */
  settle(outcome: Outcome): Promise<void>;
}

/**
 * Asks the pool for a replica and waits for its verdict, or throws why it refused. A call that is
 * stopped meanwhile is withdrawn.
 */
export async function acquireLease(
  call: Call,
  excludedReplicaIds: readonly ReplicaId[],
  env: Env,
): Promise<HeldLease> {
  const { watch, record, requestId } = call;
  const { poolId } = call.target.model;
  const pool = () => env.POOLS.getByName(poolId);
  const withdraw = (): void => {
    pool()
      .withdraw(requestId)
      .catch((error: unknown) => {
        logLine("error", "not-withdrawn", { requestId, details: String(error) });
      });
  };
  watch.signal.addEventListener("abort", withdraw, { once: true });
  const offeredAtMs = Date.now();
  const offerNow = () => toOffer(call, excludedReplicaIds, Date.now());
  const answer = await askAnew(async () => {
    if (watch.problem !== undefined) throw new GatewayError(watch.problem);
    return pool().acquire(poolId, offerNow());
  }).finally(() => watch.signal.removeEventListener("abort", withdraw));
  const queuedMs = Date.now() - offeredAtMs;
  record.queuedMs += queuedMs;
  call.timeline.queued(queuedMs);
  if (answer.kind === "rejected") {
    const { reason, code } = answer.rejection;
    record.rejectedFor = reason;
    record.isRefusedByUs = code === "server_is_overloaded";
    // So the pool has counted it: who was admitted once and is refused now has failed.
    if (isRetry(call) && reason !== "withdrawn") {
      record.attainment = FAILED;
      record.missCause = "replica";
    }
    if (watch.problem === undefined && fallBack(call, answer.rejection)) {
      return acquireLease(call, excludedReplicaIds, env);
    }
    throw new GatewayError(watch.problem ?? rejectionProblem(answer.rejection, call));
  }
  const { dispatch, lease } = answer;
  // Whoever goes on with it, or is asked beside or instead, is to keep to it as well.
  const { clampedOutputTokensMax } = dispatch;
  if (clampedOutputTokensMax !== undefined) clampOutput(call, clampedOutputTokensMax);
  return heldLease(call, { dispatch, lease }, excludedReplicaIds);
}

/** A lease as its holder sees it. That the pool is away must not spoil an answer under way. */
function heldLease(
  call: Call,
  { dispatch, lease }: GivenLease,
  triedReplicaIds: readonly ReplicaId[],
): HeldLease {
  return {
    dispatch,
    prefilled: async (outcome) => {
      await lease.prefilled(outcome).catch(logLost);
    },
    started: async (firstTokenAfterMs) => {
      await lease.started(firstTokenAfterMs).catch(logLost);
    },
    stalled: async () => {
      await lease.stalled().catch(logLost);
    },
    limited: async (said) => {
      await lease.limited(said).catch(logLost);
    },
    onceDisplaced: async () => {
      if (dispatch.isInProfile) return false;
      return lease.displaced().catch(() => false);
    },
    prospects: async (askedReplicaIds) =>
      lease.prospects([...triedReplicaIds, ...askedReplicaIds]).catch(() => undefined),
    hedge: async () => {
      const offer = toOffer(call, triedReplicaIds, Date.now());
      const given = await lease.hedge(offer).catch(() => undefined);
      return given && heldLease(call, given, [...triedReplicaIds, dispatch.replicaId]);
    },
    settle: giveBackOnce(lease, (outcome: Outcome) => lease.settle(outcome)),
  };
}

interface GivenLease {
  readonly dispatch: Dispatch;
  readonly lease: PoolLeaseStub;
}

/** What of a lease can be called from afar. */
interface PoolLeaseStub extends Disposable {
  prefilled(outcome: PrefillOutcome): Promise<void>;
  started(firstTokenAfterMs: number): Promise<void>;
  stalled(): Promise<void>;
  limited(said: SaidLimit): Promise<void>;
  displaced(): Promise<boolean>;
  prospects(triedReplicaIds: readonly ReplicaId[]): Promise<Prospects | undefined>;
  hedge(offer: Offer): Promise<GivenLease | undefined>;
  settle(outcome: Outcome): Promise<void>;
}

function logLost(error: unknown): void {
  logLine("error", "lease-lost", { details: String(error) });
}

const isRetry = ({ record }: Call): boolean => record.attempts > record.attemptsElsewhere;

function toOffer(call: Call, excludedReplicaIds: readonly ReplicaId[], nowMs: number): Offer {
  const { target, promise } = call;
  const { interrupted } = call.record;
  const { outputTokensMax } = target;
  const keys = target.keys;
  // What another replica goes on with is neither to be shorter by now nor of another model.
  const overload = interrupted === undefined ? target.overload : undefined;
  return {
    requestId: call.requestId,
    tenantId: call.tenant.tenantId,
    modelId: target.model.modelId,
    replicaModelId: target.model.upstreamModel,
    operation: call.operation.name,
    share: target.share,
    ...(overload !== undefined && { overload }),
    promptBytes: call.promptBytes,
    ...(outputTokensMax !== undefined && { outputTokensMax }),
    targets: promise.targets,
    ...(promise.promised !== promise.targets && { promised: promise.promised }),
    isStreamed: call.isStreamed,
    elapsedMs: Math.max(0, nowMs - startedAtMs(call.record)),
    route: keys.route,
    chain: toChain(keys.hashes, keys.promptBytes),
    excludedReplicaIds,
    isRetry: isRetry(call),
    ...(call.record.retryReason !== undefined && { retryReason: call.record.retryReason }),
    ...(interrupted !== undefined && {
      continued: {
        promptTokens: interrupted.continuation.prompt_tokens,
        emittedTokens: interrupted.continuation.token_ids.length,
        resumeByMs: call.watch.expectedByAtMs - startedAtMs(call.record),
      },
    }),
  };
}
