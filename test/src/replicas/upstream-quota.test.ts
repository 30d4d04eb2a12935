import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import { UpstreamQuota } from "../../../src/replicas/upstream-quota.ts";

const OUTSTANDING_MAX = 256;

/** A server that takes so many at once, each of which takes as long as it likes. */
class Crowd {
  readonly quota = new UpstreamQuota({ cutNumber: 0 });
  #number = 0;

  /** One of so many that are there at once is answered, or refused. */
  hear(
    outstanding: number,
    took: { readonly firstTokenMs: number; readonly tokens?: number } | "refused",
  ): void {
    this.#number += 1;
    const request = { dispatchNumber: this.#number, outstanding, outstandingMax: OUTSTANDING_MAX };
    // All who are there were sent behind it.
    const lastNumber = this.#number + outstanding;
    if (took === "refused") this.quota.refused(request, lastNumber);
    else this.quota.answered(request, { tokens: 0, ...took }, lastNumber);
    this.quota.checkInvariants();
  }

  settle(): void {
    this.#number = this.quota.state.cutNumber;
  }
}

describe("UpstreamQuota", () => {
  test("knows no ceiling until it was too much", () => {
    const crowd = new Crowd();
    for (let count = 0; count < 500; count++) crowd.hear(100, { firstTokenMs: 200 });
    expect(crowd.quota.ceiling).toBe(Infinity);
  });

  test("cuts once for a crowd that is refused, and never below one", () => {
    const crowd = new Crowd();
    for (let count = 0; count < 40; count++) crowd.hear(40 - count, "refused");
    expect(crowd.quota.ceiling).toBe(36);
    for (let round = 0; round < 100; round++) {
      crowd.settle();
      crowd.hear(1, "refused");
    }
    expect(crowd.quota.ceiling).toBe(1);
  });

  test("rises by one for as many answers as there may be at once, if they are made use of", () => {
    const crowd = new Crowd();
    crowd.hear(11, "refused");
    const before = crowd.quota.ceiling;
    for (let count = 0; count < 100; count++) crowd.hear(3, { firstTokenMs: 100 });
    expect(crowd.quota.ceiling).toBe(before);
    for (let count = 0; count <= before; count++) crowd.hear(before, { firstTokenMs: 100 });
    expect(crowd.quota.ceiling).toBe(before + 1);
    for (let count = 0; count < 40_000; count++) crowd.hear(OUTSTANDING_MAX, { firstTokenMs: 100 });
    expect(crowd.quota.ceiling).toBe(Infinity);
  });

  test("finds how many a server takes before they wait inside it, from their first tokens alone", () => {
    const slots = 20;
    const random = seededRandom(7);
    const crowd = new Crowd();
    const late: number[] = [];
    for (let count = 0; count < 6_000; count++) {
      // It is asked for as many as it may have, up to forty; a second batch waits for the first.
      const outstanding = Math.min(crowd.quota.ceiling, count < 200 ? 10 : 60);
      const waitRatio = Math.max(1, outstanding / slots) ** 2;
      const tokens = Math.floor(random() * 4_000);
      const firstTokenMs = 0.4 * (500 + tokens) * waitRatio * (0.8 + 0.4 * random());
      crowd.hear(outstanding, { firstTokenMs, tokens });
      if (count > 3_000) late.push(outstanding);
    }
    const mean = late.reduce((sum, each) => sum + each, 0) / late.length;
    expect(mean).toBeGreaterThan(slots * 0.8);
    expect(mean).toBeLessThan(slots * 1.6);
  });

  test("does not take long prompts for slowness", () => {
    const crowd = new Crowd();
    for (let count = 0; count < 400; count++) {
      const tokens = count < 200 ? 100 : 8_000;
      crowd.hear(20, { firstTokenMs: 0.4 * (500 + tokens), tokens });
    }
    expect(crowd.quota.ceiling).toBe(Infinity);
  });

  test("cuts to half for one answer, however slow it was", () => {
    const crowd = new Crowd();
    for (let count = 0; count < 50; count++) crowd.hear(100, { firstTokenMs: 200 });
    crowd.hear(100, { firstTokenMs: 200_000 });
    expect(crowd.quota.ceiling).toBe(50);
  });

  test("takes one or two that are slow for no crowd", () => {
    const crowd = new Crowd();
    for (let count = 0; count < 50; count++) crowd.hear(20, { firstTokenMs: 200 });
    for (let count = 0; count < 50; count++) crowd.hear(2, { firstTokenMs: 2_000 });
    expect(crowd.quota.ceiling).toBe(Infinity);
  });

  test("learns from those who are alone that the server has become slower for good", () => {
    const crowd = new Crowd();
    for (let count = 0; count < 50; count++) crowd.hear(20, { firstTokenMs: 200 });
    for (let count = 0; count < 60; count++) crowd.hear(1, { firstTokenMs: 800 });
    crowd.hear(20, { firstTokenMs: 800 });
    expect(crowd.quota.ceiling).toBe(Infinity);
  });

  test("keeps the longest hold", () => {
    const { quota } = new Crowd();
    quota.holdUntil(1_000);
    quota.holdUntil(400);
    expect([quota.isHeldAt(999), quota.isHeldAt(1_000)]).toEqual([true, false]);
  });
});
