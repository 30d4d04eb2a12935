import { describe, expect, test } from "vitest";
import type { Mechanisms } from "../../../src/pool/mechanisms.ts";
import { ALL_MECHANISMS } from "../../../src/pool/mechanisms.ts";
import type { Offer } from "../../../src/pool/offer.ts";
import {
  anOffer,
  aReadyPool,
  firstTokenWithin,
  NO_GUARANTEE,
  only,
} from "../../support/pool-builders.ts";
import { aReport, EPOCH, replicaIdOf } from "../../support/replica-builders.ts";
import { aFullPool, anOfferOf, dispatched, leaseOf, refused } from "./full-pool.ts";

type Switches = Partial<Mechanisms>;

/** A small world, and what comes of it with the mechanism and without. */
interface Example {
  readonly says: string;
  readonly run: (mechanisms: Switches) => unknown;
  readonly on: unknown;
  readonly off: unknown;
}

const FIRST = { epoch: EPOCH, number: 1 };
const COMPLETED = { kind: "completed" } as const;
const SHORT = { outputTokensMax: 5 } as const;
const PATIENT: Partial<Offer> = { ...SHORT, targets: firstTokenWithin(30_000) };
const aPoolWith = (mechanisms: Switches, replicaCount = 1) =>
  aReadyPool({ replicaCount, pool: { mechanisms } });

const inBand = (band: number): Partial<Offer> => ({
  ...PATIENT,
  share: { weight: 1, guaranteedRatio: 0.3, band },
});

/** Names of who is served, as the one slot there is comes free again and again. */
function orderOf(
  { pool, leaseId }: ReturnType<typeof aFullPool>,
  startAtMs: number,
  count: number,
): string[] {
  const order: string[] = [];
  let last = leaseId;
  for (let served = 0; served < count; served += 1) {
    const effects = pool.settle(last, COMPLETED, startAtMs + served);
    order.push(...dispatched(effects));
    last = leaseOf(effects);
  }
  return order;
}

const EXAMPLES: Readonly<Record<keyof Mechanisms, Example>> = {
  admission: {
    says: "a request that cannot be in time is not sent anywhere",
    run: (mechanisms) => {
      const pool = aPoolWith(mechanisms);
      pool.report(replicaIdOf(0), aReport(2, { queuedUncachedTokens: 5_000 }), 0);
      return dispatched(pool.offer(anOffer("r"), 1));
    },
    on: [],
    off: ["r"],
  },
  margin: {
    says: "a request that would be in time only in the mean is not sent anywhere",
    run: (mechanisms) => {
      // A step of 10 ms, and 16 tokens of template.
      const offer = anOffer("r", { targets: firstTokenWithin(28) });
      return dispatched(aPoolWith(mechanisms).offer(offer, 1));
    },
    on: [],
    off: ["r"],
  },
  residents: {
    says: "a request that would break the target of one that runs there is not sent there",
    run: (mechanisms) => {
      const pool = aPoolWith(mechanisms);
      const steady = { ...PATIENT.targets, tbtMaxMs: 100 };
      pool.started(leaseOf(pool.offer(anOffer("resident", { targets: steady }), 0)), 30, 40);
      return dispatched(pool.offer(anOffer("r", { ...PATIENT, promptBytes: 2_000 }), 50));
    },
    on: [],
    off: ["r"],
  },
  guarantees: {
    says: "who is guaranteed nothing is told that it is beyond its share",
    run: (mechanisms) => {
      const { pool } = aFullPool({ queueMax: 0, pool: { mechanisms } });
      const offer = anOfferOf("other", "r", { share: NO_GUARANTEE });
      return only("reject", pool.offer(offer, 1))[0]?.rejection.code;
    },
    on: "rate_limit_exceeded",
    off: "server_is_overloaded",
  },
  revision: {
    says: "a request is charged while it runs for what it goes on beyond its forecast",
    run: (mechanisms) => {
      const pool = aPoolWith(mechanisms);
      pool.started(leaseOf(pool.offer(anOffer("r", { outputTokensMax: 5_000 }), 0)), 0, 0);
      for (let nowMs = 1_000; nowMs <= 10_000; nowMs += 1_000) {
        pool.report(replicaIdOf(0), aReport(nowMs, { runningRequests: 1 }), nowMs);
      }
      const [lease] = pool.state.leases.values();
      return lease !== undefined && lease.chargedMs > 2 * lease.costMs;
    },
    on: true,
    off: false,
  },
  fairness: {
    says: "one tenant's many urgent requests do not pass another's few",
    run: (mechanisms) => {
      const full = aFullPool({ pool: { mechanisms } });
      const urgent = { ...SHORT, targets: firstTokenWithin(20_000) };
      for (const name of ["a1", "a2", "a3"]) full.pool.offer(anOfferOf("a", name, urgent), 1);
      full.pool.offer(anOfferOf("b", "b1", PATIENT), 1);
      return orderOf(full, 2, 4).indexOf("b1") <= 1;
    },
    on: true,
    off: false,
  },
  drop: {
    says: "a request that can no longer be in time is refused rather than served late",
    run: (mechanisms) => {
      const { pool, leaseId } = aFullPool({ pool: { mechanisms } });
      pool.offer(anOffer("r"), 1);
      for (const nowMs of [900, 1_000, 1_500]) pool.wake(nowMs);
      pool.report(replicaIdOf(0), aReport(2), 1_600);
      return dispatched(pool.settle(leaseId, COMPLETED, 1_600));
    },
    on: [],
    off: ["r"],
  },
  queue: {
    says: "a request for which there is no room now waits for it",
    run: (mechanisms) => {
      const { pool } = aFullPool({ pool: { mechanisms } });
      return refused(pool.offer(anOffer("r"), 1));
    },
    on: {},
    off: { r: "infeasible" },
  },
  displacement: {
    says: "excess that has not begun gives way to what is guaranteed",
    run: (mechanisms) => {
      const { pool } = aFullPool({ first: { share: NO_GUARANTEE }, pool: { mechanisms } });
      return only("displace", pool.offer(anOfferOf("other", "r"), 1)).length;
    },
    on: 1,
    off: 0,
  },
  ledger: {
    says: "what was sent since the last report counts",
    run: (mechanisms) => {
      const pool = aPoolWith(mechanisms);
      const large = { ...SHORT, promptBytes: 2_800, targets: firstTokenWithin(2_000) };
      return ["a", "b"].flatMap((name) => dispatched(pool.offer(anOffer(name, large), 1)));
    },
    on: ["a"],
    off: ["a", "b"],
  },
  doubt: {
    says: "a replica whose answers take twice as long as it tells is not believed",
    run: (mechanisms) => {
      const pool = aPoolWith({ ...mechanisms, margin: false });
      const outcome = { ...COMPLETED, promptTokens: 116, outputTokens: 51, decodeMs: 1_100 };
      for (let nowMs = 0; nowMs <= 6_000; nowMs += 300) {
        pool.report(replicaIdOf(0), aReport(2 + nowMs), nowMs);
        pool.settle(leaseOf(pool.offer(anOffer(`r${nowMs}`), nowMs)), outcome, nowMs + 200);
      }
      // Of the 11 ms a token that it tells this is as much again and a half.
      const targets = { ...PATIENT.targets, tpot: { limitMs: 17, percentileRatio: 0.99 } };
      return dispatched(pool.offer(anOffer("r", { ...PATIENT, targets }), 6_300));
    },
    on: [],
    off: ["r"],
  },
  ejection: {
    says: "a replica that fails again and again gets nothing for a while",
    run: (mechanisms) => {
      const pool = aPoolWith(mechanisms, 2);
      for (let index = 0; index < 3; index += 1) {
        const offer = anOffer(`r${index}`, { excludedReplicaIds: [replicaIdOf(1)] });
        pool.settle(leaseOf(pool.offer(offer, index)), { kind: "upstream-failed" }, index);
      }
      return pool.status(3).replicas.map(({ health }) => health);
    },
    on: ["ejected", "healthy"],
    off: ["healthy", "healthy"],
  },
  blame: {
    says: "a replica that fails only whoever fails everywhere goes on",
    run: (mechanisms) => {
      const pool = aPoolWith(mechanisms, 2);
      for (let index = 0; index < 6; index += 1) {
        const offer = anOffer(`r${index}`, { excludedReplicaIds: [replicaIdOf(index % 2)] });
        pool.settle(leaseOf(pool.offer(offer, index)), { kind: "upstream-failed" }, index);
      }
      return pool.status(6).replicas.filter(({ health }) => health === "ejected").length;
    },
    on: 0,
    off: 1,
  },
  hedging: {
    says: "a late request is sent to a second replica as well",
    run: (mechanisms) => {
      const pool = aPoolWith(mechanisms, 2);
      const offer = anOffer("r");
      return only("hedge", pool.hedge(leaseOf(pool.offer(offer, 0)), offer, 400)).length;
    },
    on: 1,
    off: 0,
  },
  aging: {
    says: "who waits for long is not passed by urgent requests for ever",
    run: (mechanisms) => {
      const full = aFullPool({ pool: { mechanisms } });
      full.pool.offer(anOfferOf("patient", "patient", inBand(2)), 1);
      // So long that it has come to the first band, and is due before what comes now.
      for (let nowMs = 1_000; nowMs <= 10_000; nowMs += 1_000) {
        const report = aReport(nowMs, { runningRequests: 1, lastDispatch: FIRST });
        full.pool.report(replicaIdOf(0), report, nowMs);
      }
      for (const name of ["u1", "u2", "u3"]) {
        full.pool.offer(anOfferOf(name, name, inBand(0)), 10_001);
      }
      return orderOf(full, 10_002, 4).indexOf("patient") < 3;
    },
    on: true,
    off: false,
  },
};

describe("mechanisms", () => {
  for (const [name, { says, run, on, off }] of Object.entries(EXAMPLES)) {
    test(`${says}, but for ${name} being off`, () => {
      expect(run({})).toEqual(on);
      expect(run({ [name]: false })).toEqual(off);
    });
  }

  test("are all on unless somebody says otherwise", () => {
    expect(Object.values(ALL_MECHANISMS)).not.toContain(false);
  });
});
