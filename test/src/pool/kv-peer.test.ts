import { describe, expect, test } from "vitest";
import type { Offer } from "../../../src/pool/offer.ts";
import { anOffer, aReadyPool, firstTokenWithin, only } from "../../support/pool-builders.ts";
import { chainOfText, keysOfText } from "../../support/prompt-chains.ts";
import { aReport, replicaIdOf, urlOf } from "../../support/replica-builders.ts";

const TEXT = "abcdefgh";
const chain = chainOfText(TEXT);

/** A long prompt; the estimate makes about 1,000 tokens of it. */
const longOffer = (change: Partial<Offer> = {}) =>
  anOffer("r", { promptBytes: 4_000, targets: firstTokenWithin(60_000), chain, ...change });

/** Two replicas; the first has the prompt and is full, so that whoever comes goes to the second. */
function aPoolThatHas(stored: string, change: Parameters<typeof aReport>[1] = {}) {
  const pool = aReadyPool({ replicaCount: 2, hello: { sequencesMax: 1, queueMax: 0 } });
  const cached = { sequence: 1, isWhole: true, stored, removed: "" };
  pool.report(replicaIdOf(0), aReport(2, { cached, runningRequests: 1, ...change }), 1);
  return pool;
}

const dispatchOf = (pool: ReturnType<typeof aPoolThatHas>, offer: Offer) =>
  only("dispatch", pool.offer(offer, 2))[0]?.dispatch;

describe("a dispatch", () => {
  test("names the full replica that has the prompt", () => {
    const dispatch = dispatchOf(aPoolThatHas(keysOfText(TEXT).join("")), longOffer());
    expect(dispatch).toMatchObject({ replicaId: replicaIdOf(1), kvPeerUrl: urlOf(0) });
  });

  test("names nobody if too little is there, or the prompt is short", () => {
    const [first = ""] = keysOfText(TEXT);
    for (const [stored, promptBytes] of [
      ["", 4_000],
      [first, 4_000],
      [keysOfText("zyxwvuts").join(""), 4_000],
      [keysOfText(TEXT).join(""), 600],
    ] as const) {
      const dispatch = dispatchOf(aPoolThatHas(stored), longOffer({ promptBytes }));
      expect(dispatch).toMatchObject({ replicaId: replicaIdOf(1) });
      expect(dispatch).not.toHaveProperty("kvPeerUrl");
    }
  });

  test("names nobody that drains or has gone", () => {
    const stored = keysOfText(TEXT).join("");
    expect(dispatchOf(aPoolThatHas(stored, { draining: true }), longOffer())).not.toHaveProperty(
      "kvPeerUrl",
    );
    const pool = aPoolThatHas(stored);
    pool.disconnected(replicaIdOf(0), 1);
    expect(dispatchOf(pool, longOffer())).not.toHaveProperty("kvPeerUrl");
  });

  test("does not name the replica itself, which has the prompt", () => {
    const pool = aReadyPool({ replicaCount: 2 });
    const stored = keysOfText(TEXT).join("");
    for (const index of [0, 1]) {
      const cached = { sequence: 1, isWhole: true, stored, removed: "" };
      pool.report(replicaIdOf(index), aReport(2, { cached }), 1);
    }
    expect(dispatchOf(pool, longOffer())).not.toHaveProperty("kvPeerUrl");
  });
});
