import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, test, vi } from "vitest";
import type { Random } from "../../src/base/random.ts";
import { seededRandom } from "../../src/base/random.ts";
import { RequestId } from "../../src/protocol/ids.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, WAIT } from "./support/gateway.ts";
import { aRow, skipTime } from "./support/limits.ts";
import { tellingAnswer, tellingFrames, tellingHead } from "./support/telling-replica.ts";
import { streamedAnswer, wholeAnswer } from "./support/upstream.ts";

const BATCHES = 4;
const REQUESTS_PER_BATCH = 250;
const AT_ONCE = 10;
const CONCURRENCY = 32;
const LEAVES_MS_MAX = 40;
const OUTPUT_MAX = 50;

const STREAM = streamedAnswer(["a", "b", "c"]);
const SLOW_STREAM = streamThatGoesOn(
  ["a"],
  { kind: "pause", ms: 15 },
  ...streamedAnswer(["b"]).slice(2),
);

const WORDS = ["a", "b", "c"];
/** A word each, and the one that ends them. */
const TOKENS_MAX = WORDS.length + 1;
/** Breaks off where another replica may go on, and goes on from there. */
const INTERRUPTED: UpstreamStep[] = [
  tellingHead(),
  ...tellingFrames(WORDS).slice(0, 2),
  { kind: "end" },
];
const GOES_ON = tellingAnswer(WORDS, 2);

/**
 * What a replica may do to a request: answer, take its time, break off, reset. It mostly answers, or its
 * pool would stop asking it.
 */
const STREAM_SCRIPTS: readonly UpstreamStep[][] = [
  ...Array.from({ length: 16 }, () => STREAM),
  ...Array.from({ length: 16 }, () => SLOW_STREAM),
  ...Array.from({ length: 12 }, () => GOES_ON),
  ...Array.from({ length: 4 }, () => INTERRUPTED),
  streamThatGoesOn(["a", "b"], { kind: "end" }),
  streamThatGoesOn(["a"], { kind: "reset" }),
  [{ kind: "reset" }],
];
const SLOW_WHOLE: UpstreamStep[] = [{ kind: "pause", ms: 15 }, ...wholeAnswer("a")];
const WHOLE_SCRIPTS: readonly UpstreamStep[][] = [
  ...Array.from({ length: 16 }, () => wholeAnswer("a")),
  ...Array.from({ length: 16 }, () => SLOW_WHOLE),
  [{ kind: "reset" }],
  [...wholeAnswer("a").slice(0, 1), { kind: "reset" }],
];

const pick = <Item>(items: readonly Item[], random: Random): Item => {
  const item = items[Math.floor(random() * items.length)];
  if (item === undefined) throw new Error("There is nothing to pick from");
  return item;
};

/** Sends one request and, as it comes, leaves at once, later, half read, or not at all. */
async function askAndPerhapsLeave(
  { ask }: TestGateway,
  isStreamed: boolean,
  random: Random,
): Promise<void> {
  const left = new AbortController();
  const fate = random();
  const leavesAfterMs = Math.floor(random() * LEAVES_MS_MAX);
  const body = { max_tokens: OUTPUT_MAX, stream: isStreamed };
  try {
    const asked = ask({ body, signal: left.signal });
    if (fate < 0.4) {
      await Promise.race([asked.catch(() => {}), scheduler.wait(leavesAfterMs)]);
      left.abort();
    }
    const response = await asked;
    expect(response.status).not.toBe(500);
    if (fate > 0.8) await response.body?.cancel();
    else await response.text();
  } catch (error) {
    // Who leaves gets no answer, and neither does who is cut off.
    if (error instanceof Error && error.name === "AssertionError") throw error;
  }
}

async function restartTenant({ tenantId }: TestGateway): Promise<void> {
  const tenant = env.TENANTS.getByName(tenantId);
  await runInDurableObject(tenant, (_object, state) => state.abort("the object ends")).catch(
    () => {},
  );
}

/** Keeps so many requests going until all of a batch are through, with a restart now and then. */
async function sendBatch(gateway: TestGateway, isStreamed: boolean, random: Random): Promise<void> {
  let remaining = REQUESTS_PER_BATCH;
  const client = async (): Promise<void> => {
    while (remaining > 0) {
      remaining -= 1;
      // oxlint-disable no-await-in-loop -- each client asks one after the other
      if (random() < 0.02) await restartTenant(gateway);
      await askAndPerhapsLeave(gateway, isStreamed, random);
      // oxlint-enable no-await-in-loop
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, client));
}

/** Takes all places that the tenant has left and gives them back. */
async function freePlaces({ tenantId }: TestGateway): Promise<number> {
  const asked = Array.from({ length: 2 * CONCURRENCY }, () =>
    env.TENANTS.getByName(tenantId).acquire({
      row: aRow({ requestId: RequestId.parse(crypto.randomUUID()) }),
      limitsMax: { concurrencyMax: CONCURRENCY },
    }),
  );
  const permits = (await Promise.all(asked)).flatMap((answer) =>
    answer.kind === "granted" ? [answer.permit] : [],
  );
  await Promise.all(permits.map((permit) => permit.release({ kind: "refunded" })));
  return permits.length;
}

async function openRows({ tenantId }: TestGateway): Promise<readonly [number, number]> {
  return runInDurableObject(env.TENANTS.getByName(tenantId), async (object, { storage }) => {
    const { openCount } = await object.usageOf("test");
    return [openCount, [...storage.kv.list({ prefix: "usage-open:" })].length];
  });
}

/** How many answers another replica has gone on with to their end. */
async function continuationsOf({ poolId }: TestGateway): Promise<number> {
  const families = await env.POOLS.getByName(poolId).metrics(poolId);
  const { lines = "" } = families.find(({ name }) => name === "gw_continuations_total") ?? {};
  return Number(/result="completed"\} (\d+)/.exec(lines)?.[1]);
}

/** Sends a batch to a gateway of its own, until its pool is idle. */
async function servedBatch(seed: number): Promise<TestGateway> {
  const random = seededRandom(seed);
  const isStreamed = seed % 2 === 0;
  const scripts = isStreamed ? STREAM_SCRIPTS : WHOLE_SCRIPTS;
  const gateway = await aGateway({
    replicaCount: 6,
    replica: { hello: { sequencesMax: 64, queueMax: 64 } },
    tenant: { concurrencyMax: CONCURRENCY, continuation: true },
  });
  const answers = Array.from({ length: 2 * REQUESTS_PER_BATCH }, () => pick(scripts, random));
  await gateway.upstream.answerWith(...answers);
  await sendBatch(gateway, isStreamed, random);
  await becomesIdle(gateway);
  // What a restart has cut off from its holder still has a row and a place; nothing else has.
  await vi.waitFor(async () => {
    const [openCount] = await openRows(gateway);
    expect(openCount).toBeLessThan(AT_ONCE);
    expect(await freePlaces(gateway)).toBe(CONCURRENCY - openCount);
  }, WAIT);
  return gateway;
}

test(`${BATCHES * REQUESTS_PER_BATCH} requests whose clients leave, whose replicas break off and whose tenant restarts leave no permit, no lease and no open row behind, and count once`, async () => {
  for (const level of ["log", "error"] as const) {
    vi.spyOn(console, level).mockImplementation(() => {});
  }
  const gateways: TestGateway[] = [];
  for (let seed = 1; seed <= BATCHES; seed += 1) {
    // oxlint-disable-next-line no-await-in-loop -- one batch is load enough
    gateways.push(await servedBatch(seed));
  }
  let completedContinuations = 0;
  // What a restart has cut off from its holder is the alarm's to settle.
  skipTime(61_000);
  for (const gateway of gateways) {
    const { tenantId } = gateway;
    // oxlint-disable no-await-in-loop -- each has the machine to itself
    await runDurableObjectAlarm(env.TENANTS.getByName(tenantId));
    expect(await openRows(gateway)).toEqual([0, 0]);
    await restartTenant(gateway);
    expect(await openRows(gateway)).toEqual([0, 0]);
    expect(await freePlaces(gateway)).toBe(CONCURRENCY);
    const rows = await env.TENANTS.getByName(tenantId).settledAfter(0, 1_000);
    completedContinuations += await continuationsOf(gateway);
    // oxlint-enable no-await-in-loop
    expect(new Set(rows.map(({ requestId }) => requestId)).size).toBe(rows.length);
    expect(rows.length).toBeGreaterThan(REQUESTS_PER_BATCH / 20);
    expect(rows.length).toBeLessThanOrEqual(REQUESTS_PER_BATCH);
    expect(Math.max(...rows.map(({ outputTokens }) => outputTokens))).toBeLessThanOrEqual(
      TOKENS_MAX,
    );
  }
  expect(completedContinuations).toBeGreaterThan(0);
}, 180_000);
