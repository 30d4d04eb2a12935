import { setTimeout as sleep } from "node:timers/promises";
import type { AdminAccess, GatewayStatus } from "../admin-client.ts";
import { closePool, drainReplica, fetchStatus } from "../admin-client.ts";
import { ADMIN_FLAGS, findGateway } from "../admin-flags.ts";
import { CommandFailure, WrongUse } from "../command.ts";
import { FLAG_HELP, flagSwitch, listFlag, wholeNumber } from "../flags.ts";
import { commandOf, toColumns, verb } from "../verbs.ts";

const LOOK_EVERY_MS = 250;
const WAIT_SECONDS_MAX = 86_400;

type Pool = GatewayStatus["pools"][number];

const WAIT = wholeNumber(0, WAIT_SECONDS_MAX).optional().register(FLAG_HELP, {
  valueName: "SECONDS",
  meaning: "Wait so long for what runs to end, and exit with 1 if it has not",
});

const POOLS_FLAGS = ADMIN_FLAGS.extend({
  pool: listFlag("POOLS", "These pools, with commas between them"),
  all: flagSwitch("All pools of the live configuration"),
});

const list = verb({
  name: "list",
  summary: "List the pools, and how each replica is",
  words: [],
  flags: ADMIN_FLAGS,
  async run(flags) {
    const { pools } = await fetchStatus(findGateway(flags).access);
    const rows = pools.flatMap((pool) => {
      const cells = [pool.poolId, stateOf(pool), countText(pool.queued), countText(pool.leases)];
      if (pool.replicas.length === 0) return [[...cells, "-", "-", "-", "-"]];
      return pool.replicas.map(({ endpointUrl, state, health, outstanding }) => {
        return [...cells, endpointUrl, state, health ?? "-", countText(outstanding)];
      });
    });
    const heads = ["pool", "state", "waiting", "running", "replica", "state", "health", "running"];
    return { lines: toColumns([heads, ...rows]), json: { pools } };
  },
});

const close = verb({
  name: "close",
  summary: "Take nothing in: who waits is refused, what runs goes on, and then engines are let go",
  words: [],
  flags: POOLS_FLAGS.extend({ wait: WAIT }),
  async run(flags) {
    const { access } = findGateway(flags);
    const poolIds = await poolIdsOf(access, flags);
    await Promise.all(poolIds.map((poolId) => closePool(access, poolId, true)));
    if (flags.wait !== undefined) {
      await untilEnded(access, flags.wait, ({ pools }) =>
        pools
          .filter(({ poolId }) => poolIds.includes(poolId))
          .reduce((sum, pool) => sum + (isAway(pool) ? NaN : (pool.leases ?? 0)), 0),
      );
    }
    return { lines: poolIds.map((poolId) => `${poolId} is closed`), json: { closed: poolIds } };
  },
});

const open = verb({
  name: "open",
  summary: "Take requests in again; engines that dial in are there within five seconds",
  words: [],
  flags: POOLS_FLAGS,
  async run(flags) {
    const { access } = findGateway(flags);
    const poolIds = await poolIdsOf(access, flags);
    await Promise.all(poolIds.map((poolId) => closePool(access, poolId, false)));
    return { lines: poolIds.map((poolId) => `${poolId} is open`), json: { opened: poolIds } };
  },
});

const drain = verb({
  name: "drain",
  summary: "Send nothing new to a replica, for maintenance; what runs there goes on",
  words: ["POOL", "URL"],
  flags: ADMIN_FLAGS.extend({ wait: WAIT }),
  async run(flags, poolId = "", url = "") {
    const { access } = findGateway(flags);
    await drainReplica(access, { poolId, url }, true);
    if (flags.wait !== undefined) {
      await untilEnded(access, flags.wait, ({ pools }) => {
        const pool = pools.find((each) => each.poolId === poolId);
        if (pool !== undefined && isAway(pool)) return NaN;
        return pool?.replicas.find(({ endpointUrl }) => endpointUrl === url)?.outstanding ?? 0;
      });
    }
    return { lines: [`Nothing new is sent to ${url}`], json: { poolId, url, isDrained: true } };
  },
});

const resume = verb({
  name: "resume",
  summary: "Use a drained replica again",
  words: ["POOL", "URL"],
  flags: ADMIN_FLAGS,
  async run(flags, poolId = "", url = "") {
    await drainReplica(findGateway(flags).access, { poolId, url }, false);
    return { lines: [`${url} is used again`], json: { poolId, url, isDrained: false } };
  },
});

/** `sluice pools`: how the pools are, and maintenance of them and of their replicas. */
export const poolsCommand = commandOf(
  { name: "pools", summary: "List, close and open pools, and drain their replicas" },
  [list, close, open, drain, resume],
);

/** Which pools are meant. None by itself: to close all of them is to be said. */
async function poolIdsOf(
  access: AdminAccess,
  { pool, all }: { readonly pool?: readonly string[] | undefined; readonly all: boolean },
): Promise<readonly string[]> {
  if ((pool === undefined) !== all) throw new WrongUse("Expected either --pool or --all");
  if (pool !== undefined) return pool;
  const { pools } = await fetchStatus(access);
  return pools.map(({ poolId }) => poolId);
}

/**
 * Waits until nothing runs any more, of which NaN is no number: that of a pool that cannot be asked. Throws when that
 * takes longer than it may.
 */
async function untilEnded(
  access: AdminAccess,
  seconds: number,
  runningOf: (status: GatewayStatus) => number,
): Promise<void> {
  const endsAtMs = performance.now() + seconds * 1_000;
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop -- each look is behind the one before
    const running = runningOf(await fetchStatus(access));
    if (running === 0) return;
    if (performance.now() > endsAtMs) {
      throw new CommandFailure(
        Number.isNaN(running)
          ? `A pool cannot be asked what still runs after ${seconds} s`
          : `${running} requests still run after ${seconds} s`,
      );
    }
    // oxlint-disable-next-line no-await-in-loop -- as above
    await sleep(LOOK_EVERY_MS);
  }
}

function stateOf(pool: Pool): string {
  if (isAway(pool)) return "away";
  return pool.isClosed === true ? "closed" : "open";
}

/** Its object does not answer. */
const isAway = ({ isClosed }: Pool) => isClosed === undefined;

const countText = (count: number | undefined) => (count === undefined ? "-" : String(count));
