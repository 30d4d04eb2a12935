import { describe, expect, test } from "vitest";
import { WaitQueue } from "../../../src/admission/wait-queue.ts";
import { OutputLengths } from "../../../src/forecast/output-lengths.ts";
import { capacityOf } from "../../../src/pool/capacity.ts";
import { toPoolRequest } from "../../../src/pool/intake.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import type { PoolRequest } from "../../../src/pool/pool-request.ts";
import { newPoolState } from "../../../src/pool/pool-state.ts";
import { TokenEstimate } from "../../../src/pool/token-estimate.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import { accountOf, WaitingList } from "../../../src/pool/waiting-list.ts";
import { anOffer, firstTokenWithin } from "../../support/pool-builders.ts";
import { aReplica } from "../../support/replica-builders.ts";
import { nameOf } from "./full-pool.ts";

function aList(queueMax: number) {
  const state = newPoolState(1, 0);
  state.queueMax = queueMax;
  const queue = new WaitQueue({}, state.queue);
  return { state, queue, list: new WaitingList(queue, state) };
}

function aRequest(name: string, isInProfile: boolean, change: Partial<Offer> = {}): PoolRequest {
  const parts = {
    tokenEstimate: new TokenEstimate(),
    outputLengths: new OutputLengths(),
    firstTokenMsMax: 60_000,
  };
  const capacity = capacityOf([aReplica().loadAt(0)]);
  return { ...toPoolRequest(anOffer(name, change), parts, capacity, 0), isInProfile };
}

describe("WaitingList", () => {
  test("keeps the cost of those who wait, and nobody's when all have left", () => {
    const { state, list } = aList(10);
    const requests = ["a", "b", "c"].map((name) => aRequest(name, true, { promptBytes: 777 }));
    for (const request of requests) list.add(request, 500, 0);
    expect(state.waitingCostMs).toBe(requests.reduce((sum, { costMs }) => sum + costMs, 0));
    expect(state.waitingCostMs).toBeGreaterThan(0);
    list.remove(nameOf("b"));
    list.take(nameOf("a"));
    list.take(nameOf("c"));
    expect(state.waitingCostMs).toBe(0);
    expect(state.waiting.size).toBe(0);
  });

  test("below its bound has room for everybody", () => {
    const { list } = aList(2);
    list.add(aRequest("a", false), 500, 0);
    expect(list.roomFor(aRequest("b", false))).toBe("free");
  });

  test("at its bound makes excess go for what is guaranteed, and has no room for more excess", () => {
    const { list } = aList(2);
    list.add(aRequest("excess", false), 500, 0);
    list.add(aRequest("guaranteed", true), 500, 0);
    expect(list.roomFor(aRequest("more", true))).toBe("excess");
    expect(list.roomFor(aRequest("more", false))).toBe("full");
  });

  test("at its bound makes excess go for that of a tenant that has less of it", () => {
    const { list } = aList(2);
    list.add(aRequest("early", false), 500, 0);
    list.add(aRequest("late", false, { targets: firstTokenWithin(2_000) }), 500, 0);
    const other = { tenantId: TenantId.parse("other") };
    expect(list.roomFor(aRequest("more", false, other))).toBe("late");
  });

  test("full of what is guaranteed has no room for anybody", () => {
    const { list } = aList(1);
    list.add(aRequest("guaranteed", true), 500, 0);
    expect(list.roomFor(aRequest("more", true))).toBe("full");
  });

  test("who is promoted comes before all excess, and is dropped when it would have been", () => {
    const { queue, list } = aList(10);
    for (const name of ["a", "b", "c"]) list.add(aRequest(name, false), 500, 0);
    list.promote(list.get(nameOf("c")), 10);
    const [first] = queue.candidates(10, 5);
    expect(first).toMatchObject({ requestId: "c", isInProfile: true, dropAtMs: 500 });
    expect(list.get(nameOf("c")).isInProfile).toBe(true);
    expect(list.take(nameOf("c"))).toMatchObject({ isInProfile: true });
    queue.checkInvariants();
  });

  test("who has left is not given back", () => {
    const { list } = aList(10);
    list.add(aRequest("a", true), 500, 0);
    expect(list.remove(nameOf("a"))?.requestId).toBe("a");
    expect(list.remove(nameOf("a"))).toBeUndefined();
    expect(() => list.get(nameOf("a"))).toThrow(/waits/);
  });
});

describe("accountOf()", () => {
  test("is where the offer's tenant is charged, by its share and profile", () => {
    const share = { weight: 3, guaranteedRatio: 0.1, band: 2 };
    expect(accountOf(aRequest("a", false, { share }))).toEqual({
      tenantId: "tenant-a",
      weight: 3,
      band: 2,
      isInProfile: false,
    });
  });
});
