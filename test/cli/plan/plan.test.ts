import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { planPool } from "../../../cli/plan/plan-pool.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import { LLAMA_8B_H200, TINY } from "../../../simulator/hardware-profile.ts";
import { CHAT } from "../../../simulator/promises/small-pool.ts";
import type { ArrivalSpec } from "../../../simulator/workloads/arrival.ts";
import { runRecorded } from "../support/recorded-terminal.ts";

const folder = createRunFolder();
afterAll(() => folder.remove());

function write(name: string, text: string): string {
  const file = join(folder.path, name);
  writeFileSync(file, text);
  return file;
}

const CONFIGURATION = write(
  "sluice.yaml",
  `models: { tiny: { context: 2048, pool: local }, other: { context: 2048, pool: apart } }
pools:
  local: { engine: sluice, replicas: [{ url: http://127.0.0.1:9101 }] }
  apart: { engine: sluice, replicas: [{ url: http://127.0.0.1:9102 }] }
classes: { easy: { ttft: { p99: 2s }, tpot: { p99: 200ms } } }
tenants:
  acme: { keys: [{ name: a, key: sk-a-1234567890 }], models: [tiny], class: easy, share: { weight: 1, guaranteed: 40% } }
  globex: { keys: [{ name: g, key: sk-g-1234567890 }], models: [tiny], class: easy, share: { weight: 1, guaranteed: 40% } }
  apart: { keys: [{ name: x, key: sk-x-1234567890 }], models: [other], class: easy }
`,
);
const traffic = (name: string, rate: number) =>
  write(
    name,
    `tenants:
  acme: { rate: ${rate}, prompt_tokens: 20..60, output_tokens: 16 }
  globex: { rate: ${rate}, prompt_tokens: 40, output_tokens: 10..30, burstiness: 0.5 }
`,
  );
const LIGHT = traffic("light.yaml", 2);
const SHORT = ["--pool", "local", "--profile", "tiny", "--seconds", "6", "--warm-up", "2"];

const Plan = z.object({
  smallest: z.number().nullable(),
  tried: z.array(
    z.object({
      replicas: z.number(),
      isKept: z.boolean(),
      tenants: z.array(
        z.object({
          name: z.string(),
          offered: z.number(),
          refused: z.number(),
          refusedRatio: z.number(),
          attainmentRatio: z.number().nullable(),
          ttftP99Ms: z.number().nullable(),
          refusedBy: z.record(z.string(), z.number()),
          tooLongPrompts: z.number(),
          cutAnswers: z.number(),
          unended: z.number(),
          isKept: z.boolean().nullable(),
        }),
      ),
    }),
  ),
});

async function planned(...words: readonly string[]) {
  const run = await runRecorded("plan", CONFIGURATION, ...SHORT, ...words, "--json");
  return { ...run, plan: Plan.parse(JSON.parse(run.stdout)) };
}

describe("sluice plan", () => {
  test("finds that one replica is enough for little, and writes table, page and JSON of it", async () => {
    const page = join(folder.path, "plan.html");
    const { exitCode, plan } = await planned("--traffic", LIGHT, "--html", page);
    expect(exitCode).toBe(0);
    expect(plan.smallest).toBe(1);
    expect(plan.tried.map(({ replicas }) => replicas)).toEqual([1]);
    expect(plan.tried[0]?.tenants.map(({ name }) => name)).toEqual(["acme", "globex"]);
    const html = readFileSync(page, "utf8");
    expect(html.match(/<svg/g)).toHaveLength(3);
    expect(html).toContain("globex");
    const { stdout } = await runRecorded("plan", CONFIGURATION, ...SHORT, "--traffic", LIGHT);
    expect(stdout).toContain("1 replica(s) are the smallest pool that keeps every promise");
    expect(stdout).toMatch(/^1 +acme +\d+ +0\.00% +100\.00% \[/m);
  });

  test("needs more replicas for more, says so of each size, and gives the same plan again", async () => {
    const words = [
      "--traffic",
      traffic("heavy.yaml", 22),
      "--replicas",
      "1..8",
      "--seeds",
      "1",
    ] as const;
    const { exitCode, plan, stdout } = await planned(...words);
    expect(exitCode).toBe(0);
    const smallest = plan.smallest ?? 0;
    expect(smallest).toBeGreaterThan(1);
    const below = plan.tried.find(({ replicas }) => replicas === smallest - 1);
    expect(below?.isKept).toBe(false);
    for (const pool of plan.tried) {
      expect(pool.isKept).toBe(pool.tenants.every(({ isKept }) => isKept));
      for (const tenant of pool.tenants) {
        expect(tenant.refusedRatio).toBeCloseTo(tenant.refused / tenant.offered);
        expect(tenant.isKept).toBe(
          tenant.refusedRatio <= 0.001 && (tenant.attainmentRatio ?? 1) >= 0.99,
        );
      }
    }
    expect((await planned(...words)).stdout).toBe(stdout);
  });

  test("says what of the file it does not simulate", async () => {
    const text = readFileSync(CONFIGURATION, "utf8");
    const limited = write(
      "limited.yaml",
      text
        .replace(
          "models: [tiny], class",
          "models: [tiny], limits: { requests_per_minute: 10 }, class",
        )
        .replace(
          "url: http://127.0.0.1:9101",
          "weight: 2, url: http://127.0.0.1:9101 }, { url: http://127.0.0.1:9103",
        ),
    );
    const words = ["--traffic", LIGHT, "--replicas", "1", "--seeds", "1", ...SHORT];
    const { stderr } = await runRecorded("plan", limited, ...words);
    expect(stderr).toContain("Not simulated: the limits of acme, as if all");
    expect(stderr).toContain("Not simulated: the weights of the replicas of local");
    const plain = await runRecorded("plan", CONFIGURATION, ...words);
    expect(plain.stderr).not.toContain("Not simulated");
    // Two a second for six seconds.
    expect(plain.stdout).toMatch(/acme: \d\d? requests say little of a p99: plan more --seconds/);
    const longer = await runRecorded("plan", CONFIGURATION, ...words, "--seconds", "90");
    expect(longer.stdout).not.toContain("say little of a p99");
  });

  test("says when no pool is large enough, and of whom", async () => {
    const words = ["--traffic", traffic("huge.yaml", 45), "--replicas", "1..2", "--seeds", "1"];
    // What is simulated is much even of few seconds, since all wait for all.
    const brief = ["--seconds", "5", "--warm-up", "1"];
    const asked = [...SHORT, ...words, ...brief];
    const { exitCode, stdout } = await runRecorded("plan", CONFIGURATION, ...asked);
    expect(exitCode).toBe(1);
    expect(stdout).toContain(
      "No pool of up to 2 replicas keeps every promise (with 2: not of acme",
    );
    expect(stdout).toContain("NOT KEPT");
  });

  test("plays a recorded trace, so many times as fast", async () => {
    const rows = Array.from(
      { length: 60 },
      (_, at) => `2023-11-16 18:00:${String(at).padStart(2, "0")}.0000000,40,12`,
    );
    const trace = write(
      "trace.csv",
      ["TIMESTAMP,ContextTokens,GeneratedTokens", ...rows].join("\n"),
    );
    const words = ["--trace", trace, "--replicas", "1", "--seeds", "1"];
    const { plan, exitCode } = await planned(...words);
    const offered = plan.tried[0]?.tenants.reduce((sum, tenant) => sum + tenant.offered, 0);
    // A request a second, of which the window of six seconds behind two counts.
    expect(offered).toBe(6);
    // Its one client is the first tenant; nobody asked for the second, and of it nothing is said.
    expect(plan.tried[0]?.tenants.map(({ isKept }) => isKept)).toEqual([true, null]);
    expect(exitCode).toBe(0);
    const fast = await planned("--trace", trace, "--replicas", "1", "--seeds", "1", "--speed", "4");
    expect(fast.plan.tried[0]?.tenants.reduce((sum, { offered: n }) => sum + n, 0)).toBe(24);
  });

  test.each([
    [["--traffic", LIGHT, "--trace", LIGHT], 2, "Expected either --traffic or --trace"],
    [[], 2, "Expected either --traffic or --trace"],
    [["--traffic", LIGHT, "--speed", "2"], 2, "--speed: Expected with --trace"],
    [
      ["--traffic", LIGHT, "--replicas", "4..2"],
      2,
      "Expected 1 to 1024 replicas, of a range the smaller number first",
    ],
    [
      ["--traffic", LIGHT, "--pool", "nowhere"],
      1,
      'one of the pools local, apart, found "nowhere"',
    ],
    [["--traffic", LIGHT, "--profile", "h900"], 1, "llama-8b-h200"],
    [["--traffic", LIGHT, "--profile", "constructor"], 1, "llama-8b-h200"],
    [["--traffic", LIGHT, "--profile", CONFIGURATION], 1, "sluice.yaml"],
    [["--traffic", join(folder.path, "nowhere.yaml")], 1, "nowhere.yaml"],
    [["--traffic", write("none.yaml", "tenants: {}")], 1, "Expected the traffic of a tenant"],
    [["--traffic", LIGHT, "--html", join(folder.path, "no", "p.html")], 1, "no such file"],
    [["--traffic", LIGHT, "--html", join(CONFIGURATION, "p.html")], 1, "not a directory"],
    [["--traffic", LIGHT, "--html", folder.path], 1, "found the folder"],
    [["--trace", CONFIGURATION], 1, "expected a trace of Azure"],
  ])("refuses what makes no sense: %j", async (words, code, said) => {
    const { exitCode, stderr } = await runRecorded("plan", CONFIGURATION, ...SHORT, ...words);
    expect(stderr).toContain(said);
    expect(exitCode).toBe(code);
  });

  test.each([
    // Without room for one token, for all of the answer, and lengths of real requests far beyond it.
    ["prompt_tokens: 2048, output_tokens: 4", { tooLong: true, cut: false }],
    ["prompt_tokens: 2047, output_tokens: 40", { tooLong: false, cut: true }],
    ["prompt_tokens: 2040, output_tokens: 40", { tooLong: false, cut: true }],
    ["prompt_tokens: 2008, output_tokens: 40", { tooLong: false, cut: false }],
    ["lengths: rag", { tooLong: true, cut: true }],
  ])("tells what became of requests that are longer than a context: %s", async (lengths, found) => {
    const asked = write("long.yaml", `tenants: { acme: { rate: 3, ${lengths} } }`);
    const words = ["--traffic", asked, "--replicas", "1", "--seeds", "1"];
    const { plan } = await planned(...words);
    const [tenant] = plan.tried[0]?.tenants ?? [];
    expect((tenant?.tooLongPrompts ?? 0) > 0).toBe(found.tooLong);
    expect((tenant?.cutAnswers ?? 0) > 0).toBe(found.cut);
    const reasons = Object.values(tenant?.refusedBy ?? {});
    expect(reasons.reduce((sum, count) => sum + count, 0)).toBe(tenant?.refused);
    const { stdout } = await runRecorded("plan", CONFIGURATION, ...SHORT, ...words);
    expect(stdout.includes("prompts do not fit into the 2048 tokens")).toBe(found.tooLong);
    expect(stdout.includes("answers ended early, at the 2048 tokens")).toBe(found.cut);
  });

  test("shows no time of requests that were all refused, and says why they were", async () => {
    const asked = write(
      "refused.yaml",
      "tenants: { acme: { rate: 2, prompt_tokens: 20500, output_tokens: 4 } }",
    );
    const page = join(folder.path, "refused.html");
    const words = ["--traffic", asked, "--replicas", "1", "--seeds", "1", "--html", page];
    const { exitCode, stdout } = await runRecorded("plan", CONFIGURATION, ...SHORT, ...words);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^1 +acme +\d+ +100\.00% +- +0\.00 +- +- +NOT KEPT/m);
    expect(stdout).toMatch(/^acme: of those refused \d+ would have been late .*\(unattainable\)/m);
    expect(readFileSync(page, "utf8")).toContain("(unattainable)");
  });

  test("does not call kept what was never put to the test", async () => {
    const rare = write(
      "rare.yaml",
      "tenants: { acme: { rate: 0.000001, prompt_tokens: 20, output_tokens: 4 }, globex: { rate: 5, prompt_tokens: 20, output_tokens: 4 } }",
    );
    const some = await planned("--traffic", rare, "--replicas", "1", "--seeds", "1");
    expect(some.exitCode).toBe(1);
    expect(some.plan.tried[0]?.tenants.map(({ isKept }) => isKept)).toEqual([null, true]);
    const never = write(
      "never.yaml",
      "tenants: { acme: { rate: 0.000001, prompt_tokens: 20, output_tokens: 4 } }",
    );
    const words = ["--traffic", never, "--replicas", "1", "--seeds", "1"];
    const { exitCode, stdout } = await runRecorded("plan", CONFIGURATION, ...SHORT, ...words);
    expect(exitCode).toBe(1);
    expect(stdout).toContain("NOT MEASURED");
    expect(stdout).toContain("nothing was offered by acme in the seconds that count");
  });

  test("counts requests that had no end as offered, and not as kept", async () => {
    const endless = write(
      "endless.yaml",
      "tenants: { acme: { rate: 1, prompt_tokens: 100, output_tokens: 40000 } }",
    );
    const words = ["--traffic", endless, "--profile", "llama-8b-h200", "--replicas", "1"];
    const { exitCode, plan } = await planned(...words, "--seeds", "1");
    const [tenant] = plan.tried[0]?.tenants ?? [];
    expect(tenant?.unended).toBeGreaterThan(0);
    expect(tenant).toMatchObject({ offered: tenant?.unended, attainmentRatio: null });
    expect(tenant).toMatchObject({ isKept: false, ttftP99Ms: null });
    expect(exitCode).toBe(1);
    const mixed = write(
      "mixed.yaml",
      "tenants: { acme: { rate: 4, prompt_tokens: 100, output_tokens: 4..40000 } }",
    );
    const other = await planned("--traffic", mixed, ...words.slice(2), "--seeds", "1");
    const [some] = other.plan.tried[0]?.tenants ?? [];
    expect(some?.offered).toBeGreaterThan(some?.unended ?? Infinity);
    // All that ended were in time; the others may have been or not.
    expect(some).toMatchObject({ attainmentRatio: 1, isKept: false });
  });

  test("asks which pool where there are several", async () => {
    const { stderr } = await runRecorded("plan", CONFIGURATION, "--traffic", LIGHT);
    expect(stderr).toContain("say which with --pool (local, apart)");
  });

  test("names everything that is wrong with expected traffic, and strangers in it", async () => {
    const wrong = write(
      "wrong.yaml",
      "tenants:\n  acme: { rate: -1, lengths: chat, output_tokens: 3 }\n  globex: { lengths: novels, rate: 1 }\n",
    );
    const { stderr, exitCode } = await runRecorded(
      "plan",
      CONFIGURATION,
      ...SHORT,
      "--traffic",
      wrong,
    );
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/tenants\.acme\.rate/);
    expect(stderr).toMatch(/tenants\.globex\.lengths/);
    const stranger = write("stranger.yaml", "tenants: { apart: { rate: 1, lengths: chat } }");
    const told = await runRecorded("plan", CONFIGURATION, ...SHORT, "--traffic", stranger);
    expect(told.stderr).toContain('Expected traffic of acme, globex, found "apart"');
  });

  test("takes a profile from a file, and names what is wrong with one", async () => {
    const right = write("own.json", JSON.stringify(TINY));
    const { plan } = await planned("--traffic", LIGHT, "--profile", right, "--replicas", "1");
    expect(plan.smallest).toBe(1);
    const wrong = write("bad.json", JSON.stringify({ ...TINY, tokenMs: -1, speed: 3 }));
    const words = [...SHORT, "--profile", wrong, "--traffic", LIGHT];
    const { stderr, exitCode } = await runRecorded("plan", CONFIGURATION, ...words);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/tokenMs.*speed/);
  });

  test("leaves nothing written where it fails before the plan", async () => {
    const page = join(folder.path, "none.html");
    await runRecorded("plan", CONFIGURATION, ...SHORT, "--html", page);
    expect(existsSync(page)).toBe(false);
  });
});

const TENANT = { ...CHAT, lengths: { promptTokens: [64], outputTokensByPrompt: [[8]] } };
const COMMON = { hardware: LLAMA_8B_H200, seeds: 2, warmUpMs: 1_000, measuredMs: 5_000 };

/** A pool with eight requests a second for each of its replicas. */
function sized(replicas: number) {
  const tenants = [{ profile: TENANT, ratePerSecond: 8 * replicas }];
  return planPool({ ...COMMON, tenants, replicas }, 0.001);
}

/** A request every two milliseconds. */
function everyTwo(): ArrivalSpec[] {
  return Array.from({ length: 3_000 }, (_, index) => ({
    atMs: 2 * index,
    tenantIndex: 0,
    promptTokens: 64,
    prefixTokens: 0,
    prefixGroup: 0,
    outputTokens: 4,
  }));
}

describe("planPool()", () => {
  test("plans a large pool as cells that each have their part of the traffic", () => {
    const [whole, cells] = [sized(10), sized(20)];
    expect(whole.cells).toBe(1);
    expect(cells.cells).toBe(2);
    // A cell is all that is simulated, and figures are of the pool.
    const expected = 8 * 20;
    expect(Math.abs(cells.goodPerSecond / expected - 1)).toBeLessThan(0.15);
    expect(Math.abs(whole.goodPerSecond / (expected / 2) - 1)).toBeLessThan(0.15);
  });

  test("thins a trace for cells by chance, and keeps its speed", () => {
    const tenants = [{ profile: TENANT, ratePerSecond: 0 }];
    const pool = planPool({ ...COMMON, tenants, replicas: 40, createArrivals: everyTwo }, 0.001);
    // 500 a second, of which a cell of 14 of 40 replicas sees 35 %, in two runs of 5 s.
    expect(Math.abs((pool.tenants[0]?.offered ?? 0) / (0.35 * 500 * 10) - 1)).toBeLessThan(0.06);
    expect(Math.abs(pool.goodPerSecond / 500 - 1)).toBeLessThan(0.06);
  });

  test("takes no promise for kept of which nothing was let in, though all may be refused and no first token is promised", () => {
    const tpot = { limitMs: 0.001, percentileRatio: 0.99 };
    const profile = { ...TENANT, targets: { tpot } };
    const pool = planPool({ ...COMMON, tenants: [{ profile, ratePerSecond: 8 }], replicas: 1 }, 1);
    expect(pool.tenants[0]).toMatchObject({ attainmentRatio: null, isKept: false });
  });

  test("gives a cell of 9 of 17 replicas more than a half of the traffic", () => {
    const tenants = [{ profile: TENANT, ratePerSecond: 0 }];
    const pool = planPool({ ...COMMON, tenants, replicas: 17, createArrivals: everyTwo }, 0.001);
    expect(Math.abs((pool.tenants[0]?.offered ?? 0) / ((9 / 17) * 500 * 10) - 1)).toBeLessThan(
      0.03,
    );
  });
});
