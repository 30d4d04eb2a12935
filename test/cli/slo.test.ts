import { createServer } from "node:http";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { noSloCounts } from "../../src/slo/slo-counts.ts";
import { toSloReport } from "../../src/slo/slo-report.ts";
import { BUILT_IN_CLASSES } from "../../src/slo/targets.ts";
import { listenOnLoopback } from "../support/listen-on-loopback.ts";
import { runRecorded } from "./support/recorded-terminal.ts";

const ADMIN_KEY = "an-admin-key-of-32-characters-or-more";

function reportOf(tenant: string) {
  const counts = noSloCounts();
  counts.refusedFor.concurrency = 7;
  counts.missedFor.stall = 1;
  const busy = { ...counts, good: 99, missed: 1, inProfile: 100 };
  const windows = [noSloCounts(), busy, busy];
  const classes = [toSloReport({ className: "chat", windows }, BUILT_IN_CLASSES["chat"])];
  return { object: "slo", tenant, classes };
}

/** A gateway's admin API as far as its wire goes: two pages of tenants, or one of them. */
const asked: { path: string | undefined; key: string | undefined }[] = [];
const gateway = createServer((request, response) => {
  asked.push({ path: request.url, key: request.headers.authorization });
  const { searchParams } = new URL(request.url ?? "", "http://gateway");
  const tenant = searchParams.get("tenant");
  const page =
    searchParams.get("after") === ""
      ? { data: [reportOf("acme"), reportOf("beta")], has_more: true }
      : { data: [reportOf("zeta")], has_more: false };
  const isKnown = tenant !== "nobody";
  const missing = { error: { message: "There is nothing here" } };
  const found = tenant === null ? page : reportOf(tenant);
  response
    .writeHead(isKnown ? 200 : 404, { "content-type": "application/json" })
    .end(JSON.stringify(isKnown ? found : missing));
});

let url = "";
let close = async (): Promise<void> => {};
beforeAll(async () => {
  ({ url, close } = await listenOnLoopback(gateway));
});
afterAll(() => close());
beforeEach(() => {
  asked.length = 0;
  vi.stubEnv("SLUICE_ADMIN_KEY", ADMIN_KEY);
});

describe("sluice slo", () => {
  test("tells all tenants, page after page, a line for each class and window", async () => {
    const { exitCode, stdout } = await runRecorded("slo", "--url", url);
    expect(exitCode).toBe(0);
    expect(asked).toEqual([
      { path: "/admin/v1/slo?after=", key: `Bearer ${ADMIN_KEY}` },
      { path: "/admin/v1/slo?after=beta", key: `Bearer ${ADMIN_KEY}` },
    ]);
    const lines = stdout.split("\n");
    expect(lines).toHaveLength(1 + 3 * 3);
    expect(lines[0]).toMatch(/^TENANT +CLASS +WINDOW +ATTAINED/);
    expect(lines[1]).toMatch(/^acme +chat +5m +- +- +0\.0 +- +0\.00 +- +- +-$/);
    expect(lines[2]).toMatch(
      /^acme +chat +1h +99\.00% +94\.55% to 99\.97% +1\.0 +0\.00% +0\.03 +100\.00% +concurrency 7 +stall 1$/,
    );
  });

  test("tells one tenant as JSON, with all that the gateway says", async () => {
    const { stdout } = await runRecorded("slo", "--url", url, "acme", "--json");
    expect(asked.map(({ path }) => path)).toEqual(["/admin/v1/slo?tenant=acme"]);
    expect(JSON.parse(stdout)).toEqual(reportOf("acme"));
  });

  test("fails with the gateway's reason, and without a key", async () => {
    expect(await runRecorded("slo", "--url", url, "nobody")).toMatchObject({
      exitCode: 1,
      stderr: `The gateway at ${url} refused (404): There is nothing here`,
    });
    vi.stubEnv("SLUICE_ADMIN_KEY", "");
    expect((await runRecorded("slo", "--url", url)).exitCode).not.toBe(0);
  });
});
