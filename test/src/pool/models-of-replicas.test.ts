import { describe, expect, test } from "vitest";
import type { Offer } from "../../../src/pool/offer.ts";
import type { Pool } from "../../../src/pool/pool.ts";
import { ModelId } from "../../../src/protocol/ids.ts";
import { MODELS_AGE_MS_MAX } from "../../../src/replicas/served-models.ts";
import {
  aLivePool,
  anOffer,
  aPool,
  aReadyPool,
  firstTokenWithin,
  only,
} from "../../support/pool-builders.ts";
import { aReport, replicaIdOf } from "../../support/replica-builders.ts";

const PATIENT: Partial<Offer> = { targets: firstTokenWithin(30_000), isStreamed: false };

/** A pool of as many servers, of which each is said to have these models. */
function aPoolWith(configured: readonly (readonly string[] | undefined)[], requestsMax = 100) {
  const pool = aPool();
  const live = aLivePool(configured.length, { requestsMax });
  const replicas = live.replicas.map((replica, index) => {
    const models = configured[index];
    return models === undefined ? replica : { ...replica, models: [...models] };
  });
  pool.configure({ ...live, engine: "vllm", replicas }, 0);
  return pool;
}

let requests = 0;
function offered(pool: Pool, replicaModelId: string, nowMs: number, change: Partial<Offer> = {}) {
  requests += 1;
  const offer = anOffer(`request-${requests}`, { ...PATIENT, replicaModelId, ...change });
  const effects = pool.offer(offer, nowMs);
  pool.checkInvariants();
  return { dispatch: only("dispatch", effects)[0], reject: only("reject", effects)[0] };
}

const wentTo = (pool: Pool, name: string, nowMs: number, change: Partial<Offer> = {}) =>
  offered(pool, name, nowMs, change).dispatch?.dispatch.replicaId;

describe("a pool whose replicas have different models", () => {
  test("sends a request only where its model is, however full that is", () => {
    const pool = aPoolWith([["a"], ["a", "b"], ["c"]], 4);
    const chosen = Array.from({ length: 4 }, () => wentTo(pool, "b", 0));
    expect(chosen).toEqual(Array(4).fill(replicaIdOf(1)));
    // It waits, although others are idle.
    expect(offered(pool, "b", 0)).toEqual({ dispatch: undefined, reject: undefined });
    expect(wentTo(pool, "c", 0)).toBe(replicaIdOf(2));
  });

  test("sends it wherever nobody has said anything, also what another one is known to have", () => {
    const pool = aPoolWith([undefined, undefined]);
    pool.told(replicaIdOf(0), { models: ["a"] }, 0);
    const chosen = new Set(Array.from({ length: 8 }, () => wentTo(pool, "a", 0)));
    expect(chosen).toEqual(new Set([replicaIdOf(0), replicaIdOf(1)]));
    expect(wentTo(pool, "b", 0)).toBe(replicaIdOf(1));
  });

  test("uses an adapter where it was loaded, as soon as that is said, and not any more once it is gone", () => {
    const pool = aPoolWith([undefined, undefined]);
    for (const index of [0, 1]) pool.told(replicaIdOf(index), { models: ["base"] }, 0);
    expect(offered(pool, "lora", 1).reject?.rejection.code).toBe("model_not_found");
    pool.told(replicaIdOf(1), { models: ["base", "lora"] }, 2);
    const chosen = Array.from({ length: 6 }, () => wentTo(pool, "lora", 3));
    expect(chosen).toEqual(Array(6).fill(replicaIdOf(1)));
    pool.told(replicaIdOf(1), { models: ["base"] }, 4);
    expect(offered(pool, "lora", 5).reject?.rejection.code).toBe("model_not_found");
    expect(wentTo(pool, "base", 5)).toBeDefined();
  });

  test("lets who waits for a model have it once a server says that it has it", () => {
    const pool = aPoolWith([undefined, undefined], 1);
    pool.told(replicaIdOf(0), { models: ["a"] }, 0);
    pool.told(replicaIdOf(1), { models: ["b"] }, 0);
    expect(wentTo(pool, "a", 0)).toBe(replicaIdOf(0));
    expect(offered(pool, "a", 0).dispatch).toBeUndefined();
    const effects = pool.told(replicaIdOf(1), { models: ["a", "b"] }, 1);
    expect(only("dispatch", effects)[0]?.dispatch.replicaId).toBe(replicaIdOf(1));
  });

  test("says of a model that no replica has that it is not there, at once, and wants to know better", () => {
    const pool = aPoolWith([undefined, undefined]);
    for (const index of [0, 1]) pool.told(replicaIdOf(index), { models: ["a"] }, 0);
    const { reject } = offered(pool, "b", 1);
    expect(reject?.rejection).toMatchObject({ code: "model_not_found", reason: "no-replica" });
    expect(reject?.rejection.retryAfterMs).toBeUndefined();
    const wanted = [...pool.state.replicas.values()].map(({ models }) => models.isWanted);
    expect(wanted).toEqual([true, true]);
  });

  test("says so also to what is beyond a guarantee, and asks another model where the ladder does", () => {
    const pool = aPoolWith([["a"]]);
    const share = { weight: 1, guaranteedRatio: 0, band: 0 };
    expect(offered(pool, "b", 0, { share }).reject?.rejection.code).toBe("model_not_found");
    const modelId = ModelId.parse("smaller");
    const { reject } = offered(pool, "b", 0, { overload: [{ kind: "fallback", modelId }] });
    expect(reject?.rejection.fallbackModelId).toBe(modelId);
  });

  test("hopes for one that may have it: a failure of that one is not a missing model", () => {
    const pool = aPoolWith([undefined, undefined]);
    pool.told(replicaIdOf(0), { models: ["a"] }, 0);
    pool.told(replicaIdOf(1), { models: ["b"], isReady: false }, 0);
    expect(offered(pool, "b", 1).reject?.rejection.code).toBe("server_is_overloaded");
    const failed = { excludedReplicaIds: [replicaIdOf(0)], isRetry: false };
    expect(offered(pool, "a", 1, failed).reject?.rejection.code).toBe("server_is_overloaded");
  });

  test("asks nothing of one that has left, and calls no model absent where there is no replica at all", () => {
    const pool = aPoolWith([undefined, undefined]);
    pool.told(replicaIdOf(0), { models: ["a"] }, 0);
    expect(wentTo(pool, "b", 0)).toBe(replicaIdOf(1));
    // It is still there for the request that runs on it, and nobody knows what else it has.
    pool.configure({ ...aLivePool(1), engine: "vllm" }, 1);
    expect(pool.state.replicas.size).toBe(2);
    expect(offered(pool, "b", 1).reject?.rejection.code).toBe("model_not_found");
    pool.configure({ ...aLivePool(0), engine: "vllm" }, 2);
    expect(offered(pool, "b", 2).reject?.rejection.code).toBe("server_is_overloaded");
  });

  test("takes no other word of limits for a missing model", () => {
    const pool = aPoolWith([undefined]);
    const { dispatch } = offered(pool, "a", 0);
    if (dispatch === undefined) throw new Error("There is room");
    pool.limited(dispatch.leaseId, { isRefused: true, holdOffMs: 0 }, 1);
    pool.settle(dispatch.leaseId, { kind: "upstream-refused" }, 1);
    expect(wentTo(pool, "a", 2)).toBe(replicaIdOf(0));
  });

  test("turns a prompt away for good that is too long for all that have its model", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const { replicas, ...live } = aLivePool(2);
    const [slow, fast] = replicas;
    if (slow === undefined || fast === undefined) throw new Error("There are two");
    const models = [
      { ...slow, models: ["a"] },
      { ...fast, models: ["b"] },
    ];
    pool.configure({ ...live, replicas: models }, 0);
    const step = { fixedMs: 500, tokenMs: 500, attendedPairMs: 0, sequenceMs: 0, kvTokenMs: 0 };
    pool.report(replicaIdOf(0), aReport(2, { step }), 0);
    const tight = { targets: firstTokenWithin(400), promptBytes: 400 };
    expect(offered(pool, "a", 0, tight).reject?.rejection.reason).toBe("unattainable");
    expect(wentTo(pool, "b", 0, tight)).toBe(replicaIdOf(1));
  });

  test("believes no list that is too old: then it is tried", () => {
    const pool = aPoolWith([undefined]);
    pool.told(replicaIdOf(0), { models: ["a"] }, 0);
    expect(wentTo(pool, "b", MODELS_AGE_MS_MAX)).toBeUndefined();
    expect(wentTo(pool, "b", MODELS_AGE_MS_MAX + 1)).toBe(replicaIdOf(0));
  });

  test("sends nothing more of a model where it was just refused, and hopes for nobody else in vain", () => {
    const pool = aPoolWith([undefined, undefined]);
    const { dispatch } = offered(pool, "lora", 0);
    if (dispatch === undefined) throw new Error("It is not known not to be there");
    const { replicaId } = dispatch.dispatch;
    expect(pool.prospectsOf(dispatch.leaseId, [], 0)?.hasOther).toBe(true);
    const said = { isRefused: false, holdOffMs: 0, lacksModel: true } as const;
    pool.limited(dispatch.leaseId, said, 1);
    for (let index = 0; index < 6; index++) expect(wentTo(pool, "lora", 2)).not.toBe(replicaId);
    const other = replicaIdOf(replicaId === replicaIdOf(0) ? 1 : 0);
    pool.told(other, { models: ["base"] }, 3);
    expect(pool.prospectsOf(dispatch.leaseId, [], 4)?.hasOther).toBe(false);
    const base = new Set(Array.from({ length: 8 }, () => wentTo(pool, "base", 4)));
    expect(base.size).toBe(2);
  });

  test("sends it where it is listed of those that answer any name, also after a change of the configuration", () => {
    const pool = aPoolWith([undefined, undefined, undefined]);
    pool.told(replicaIdOf(0), { models: ["llama"], answersAnyName: true }, 0);
    pool.told(replicaIdOf(1), { models: ["qwen"], answersAnyName: true }, 0);
    pool.told(replicaIdOf(2), { models: ["qwen"], answersAnyName: true }, 0);
    const chosen = Array.from({ length: 6 }, () => wentTo(pool, "llama", 1));
    expect(chosen).toEqual(Array(6).fill(replicaIdOf(0)));
    // By another name any of them may be meant, and these have less to do.
    const anywhere = Array.from({ length: 6 }, () => wentTo(pool, "default", 1));
    expect(new Set(anywhere)).toEqual(new Set([replicaIdOf(1), replicaIdOf(2)]));
    // Nobody else answers for a model that is away, however long.
    const away = { excludedReplicaIds: [replicaIdOf(0)] };
    expect(offered(pool, "llama", 10 * MODELS_AGE_MS_MAX, away).dispatch).toBeUndefined();
    // Once it has left the pool, nobody lists it any more.
    const live = aLivePool(3, { requestsMax: 100 });
    pool.configure({ ...live, engine: "vllm", replicas: live.replicas.slice(1) }, 1);
    pool.checkInvariants();
    expect(wentTo(pool, "llama", 2)).not.toBe(replicaIdOf(0));
    // A server at another address has said nothing yet.
    const [, moved, third] = live.replicas;
    if (moved === undefined || third === undefined) throw new Error("There are three replicas");
    const replicas = [{ ...moved, endpointUrl: "http://127.0.0.1:9999" }, third];
    pool.configure({ ...live, engine: "vllm", replicas }, 3);
    pool.checkInvariants();
    const qwens = Array.from({ length: 12 }, () => wentTo(pool, "qwen", 4));
    expect(new Set(qwens)).toEqual(new Set([replicaIdOf(1), replicaIdOf(2)]));
  });
});
