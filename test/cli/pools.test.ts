import { createServer } from "node:http";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { listenOnLoopback } from "../support/listen-on-loopback.ts";
import { runRecorded } from "./support/recorded-terminal.ts";

const REPLICA = "http://10.0.0.7:8000";
const AWAY = { poolId: "gpu", isAway: true, replicas: [] };

function poolWith(running: number) {
  const replica = { endpointUrl: REPLICA, state: "draining", health: "healthy" };
  return {
    poolId: "gpu",
    isClosed: true,
    queued: 0,
    leases: running,
    replicas: [{ ...replica, outstanding: running }],
  };
}

/** A gateway's admin API as far as its wire goes: what it says of its pool at each look, the last of it for ever. */
let looks: object[] = [];
let looked = 0;
const gateway = createServer(({ url: path = "" }, response) => {
  response.writeHead(200, { "content-type": "application/json" });
  if (path.endsWith("/status")) {
    const pool = looks[Math.min(looked, looks.length - 1)];
    looked += 1;
    response.end(JSON.stringify({ configurationVersion: 1, pools: [pool] }));
  } else if (path.endsWith("/closed")) {
    response.end(JSON.stringify({ poolId: "gpu", isClosed: true }));
  } else {
    response.end(JSON.stringify({ poolId: "gpu", replicaId: REPLICA, isDrained: true }));
  }
});

let url = "";
let close = async (): Promise<void> => {};
beforeAll(async () => {
  ({ url, close } = await listenOnLoopback(gateway));
});
afterAll(() => close());
beforeEach(() => {
  looked = 0;
  vi.stubEnv("SLUICE_ADMIN_KEY", "an-admin-key-of-32-characters-or-more");
});

describe.each([
  ["close", ["close", "--pool", "gpu"]],
  ["drain", ["drain", "gpu", REPLICA]],
])("sluice pools %s --wait", (_verb, words) => {
  const run = (seconds: number) =>
    runRecorded("pools", ...words, "--url", url, "--wait", String(seconds));

  test("waits until nothing runs, and longer for a pool that cannot be asked", async () => {
    looks = [poolWith(2), AWAY, AWAY, poolWith(0)];
    expect(await run(30)).toMatchObject({ exitCode: 0 });
    expect(looked).toBe(4);
  });

  test.each([
    [poolWith(2), "2 requests still run after 0 s"],
    [AWAY, "A pool cannot be asked what still runs after 0 s"],
  ])("fails once that has taken too long: %o", async (pool, message) => {
    looks = [pool];
    expect(await run(0)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining(message) });
  });
});
