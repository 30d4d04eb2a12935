import type { ReplicaHello, ReplicaReport } from "../../src/protocol/engine-api.ts";
import { LeaseId, ModelId, ReplicaId, TenantId } from "../../src/protocol/ids.ts";
import { Replica } from "../../src/replicas/replica.ts";
import type { ReplicaOptions, ReplicaSettings } from "../../src/replicas/replica-state.ts";
import type { SentRequest } from "../../src/replicas/residents.ts";

export const EPOCH = "epoch-1";

/** The first, second … replica of a pool. */
export function urlOf(index: number): string {
  return `http://127.0.0.1:${9101 + index}`;
}

export function replicaIdOf(index: number): ReplicaId {
  return ReplicaId.parse(urlOf(index));
}

export function settingsOf(index: number, change: Partial<ReplicaSettings> = {}): ReplicaSettings {
  return { replicaId: replicaIdOf(index), endpointUrl: urlOf(index), ...change };
}

/** The hello of a replica with four sequences and no queue; beside four decodes a step prefills 1,000 tokens. */
export function aHello(index: number, change: Partial<ReplicaHello> = {}): ReplicaHello {
  return {
    kind: "hello",
    protocolVersion: 3,
    endpointUrl: urlOf(index),
    instanceId: `life-1-of-${index}`,
    modelId: "sluice-tiny",
    contextTokens: 2048,
    blockTokens: 16,
    blockCount: 1024,
    sequencesMax: 4,
    queueMax: 0,
    batchTokensMax: 1004,
    keepsTbt: false,
    ...change,
  };
}

/** The report of an idle replica that prefills a token in a millisecond and steps in ten. */
export function aReport(sequence: number, change: Partial<ReplicaReport> = {}): ReplicaReport {
  return {
    kind: "report",
    sequence,
    queuedRequests: 0,
    runningRequests: 0,
    usedBlocks: 0,
    blockTokens: 16,
    blockCount: 1024,
    queuedUncachedTokens: 0,
    queuedAttendedPairs: 0,
    runningKvTokens: 0,
    waitingKvTokens: 0,
    step: { fixedMs: 10, tokenMs: 1, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 },
    speedRatio: 1,
    prefillTimeRatio: 0,
    prefillTokensPerSecond: 1000,
    stepMs: 10,
    tightestTbtMs: null,
    lastDispatch: null,
    draining: false,
    ...change,
  };
}

/** A request of 100 prompt tokens that expects 50 of output and was promised nothing. */
export function aSentRequest(
  dispatchNumber: number,
  change: Partial<SentRequest> = {},
): SentRequest {
  return {
    dispatchNumber,
    leaseId: LeaseId.parse(`${EPOCH}.${dispatchNumber}`),
    tenantId: TenantId.parse("tenant-a"),
    modelId: ModelId.parse("sluice-tiny"),
    promptTokens: 100,
    cachedTokens: 0,
    expectedOutputTokens: 50,
    outputTokensMax: undefined,
    tpotMs: undefined,
    tbtMs: undefined,
    ...change,
  };
}

/** A replica that has said hello and reported once, at instant 0. */
export function aReplica(
  change: {
    readonly settings?: Partial<ReplicaSettings>;
    readonly options?: ReplicaOptions;
    readonly hello?: Partial<ReplicaHello>;
    readonly report?: Partial<ReplicaReport>;
  } = {},
): Replica {
  const replica = new Replica(settingsOf(0, change.settings), change.options);
  replica.connect(aHello(0, change.hello), 0);
  replica.report(aReport(1, change.report), { epoch: EPOCH, nowMs: 0 });
  return replica;
}
