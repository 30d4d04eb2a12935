import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { deciderOf, verdictIn } from "../../../cli/replay/deciders.ts";
import { shadowLog } from "../../../cli/replay/shadow-log.ts";
import { decodeDecisions, encodeDecisions } from "../../../src/pool/decision-lines.ts";
import { DecisionLog } from "../../../src/pool/decision-log.ts";
import { Pool } from "../../../src/pool/pool.ts";
import { TenantId } from "../../../src/protocol/ids.ts";
import { aReadyPool, anOffer, firstTokenWithin } from "../../support/pool-builders.ts";
import { EPOCH } from "../../support/replica-builders.ts";
import { RandomCalls } from "../../src/pool/random-calls.ts";
import { runRecorded } from "../support/recorded-terminal.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-replay-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** The log of a pool to which anything may happen. */
function written(seed: number, calls = 400): string {
  const log = new DecisionLog(new Pool({ epoch: EPOCH, startedAtMs: 0, seed }), 150);
  const source = new RandomCalls(seed);
  for (let index = 0; index < calls; index += 1) {
    const call = source.next();
    source.heed(log.call(call, source.nowMs));
  }
  return textOf(log);
}

function textOf(log: DecisionLog): string {
  return [...encodeDecisions({ epoch: EPOCH, records: log.records() }, Infinity)].join("");
}

function fileWith(text: string): string {
  const file = join(folder, "log.ndjson");
  writeFileSync(file, text);
  return file;
}

/** For a reason that a test can put another one in the place of. */
const REFUSAL = /"kind":"reject".*"reason":"(?!withdrawn)/u;

describe("sluice replay", () => {
  test.each([1, 2, 3])("makes every decision of a log again (%d)", async (seed) => {
    const { exitCode, stdout } = await runRecorded("replay", fileWith(written(seed)));
    expect(stdout).toContain("Every decision came out as it was logged");
    expect(stdout).toMatch(/^\d+ calls from 2 snapshot\(s\): /);
    expect(exitCode).toBe(0);
  });

  test("names the first decision that comes out otherwise, and in what", async () => {
    const lines = written(1).split("\n");
    // The last refusal, so that whole records lie before it.
    const at = lines.findLastIndex((line) => REFUSAL.test(line));
    const changed = lines[at]?.replace(/"reason":"[a-z-]+"/, '"reason":"withdrawn"') ?? "";
    const calls = lines.slice(0, at + 1).filter((line) => line.startsWith('{"kind":"call"'));
    const file = fileWith(lines.with(at, changed).join("\n"));
    const { exitCode, stdout } = await runRecorded("replay", file);
    expect(exitCode).toBe(1);
    expect(stdout).toContain(`1 call(s) led to something else, first call ${calls.length}: `);
    expect(stdout).toMatch(/\.rejection\.reason: logged "withdrawn", now "/);
    const json: unknown = JSON.parse((await runRecorded("replay", file, "--json")).stdout);
    expect(json).toMatchObject({
      isReproduced: false,
      diverged: 1,
      first: { callNumber: calls.length },
    });
  });

  test("makes a log that was cut again as far as it goes, and says so", async () => {
    const text = written(2);
    const cut = text.slice(0, text.lastIndexOf('{"kind":"end"}'));
    const { exitCode, stdout } = await runRecorded("replay", fileWith(cut));
    expect(stdout).toContain("its latest calls are missing");
    expect(exitCode).toBe(0);
  });

  test.each([
    ["nothing", "", "is no log of decisions: it is empty"],
    ["another file", "hello\n", "is no log of decisions: line 1: "],
    ["other JSON", "[]\n", "line 1: expected a line of a log"],
    ["null", "null\n", "line 1: expected a line of a log"],
    [
      "no head",
      `{"kind":"end"}\n`,
      `line 1: expected the head of a log with its epoch, found "end"`,
    ],
    ["a head without an epoch", `{"kind":"log"}\n`, "line 1: expected the head of a log"],
    [
      "a call from nowhere",
      `{"kind":"log","epoch":"e"}\n\n{"kind":"call"}\n`,
      "line 3: expected a snapshot",
    ],
    [
      "a fault in its midst",
      `{"kind":"log","epoch":"e"}\n{"kind":"sn\n{"kind":"end"}\n`,
      "line 2: ",
    ],
    ["a head alone", `{"kind":"log","epoch":"e"}\n`, "has no snapshot"],
  ])("refuses a file with %s", async (_, text, complaint) => {
    const { exitCode, stderr } = await runRecorded("replay", fileWith(text));
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining(complaint)]);
  });

  test("says where a log ends in the midst of a line, as after an interrupted download", async () => {
    const text = written(2);
    const { exitCode, stderr } = await runRecorded("replay", fileWith(text.slice(0, -100)));
    const lines = text.slice(0, -100).split("\n").length;
    expect(stderr).toContain(`it ends in the midst of line ${lines}, as after an interrupted`);
    expect(exitCode).toBe(1);
  });

  test("knows whom it can let decide beside a log", async () => {
    const { exitCode, stderr } = await runRecorded("replay", "x", "--shadow", "nobody");
    expect(exitCode).toBe(2);
    expect(stderr).toContain("least-outstanding");
  });

  test("reports what another would have decided", async () => {
    const file = fileWith(written(3));
    const { exitCode, stdout } = await runRecorded("replay", file, "--shadow", "least-outstanding");
    expect(exitCode).toBe(0);
    expect(stdout).toContain("least-outstanding beside it: the same kind of verdict on ");
  });
});

describe("shadowLog()", () => {
  test("agrees with itself on every offer, and so sees each in the state that the pool was in", () => {
    for (const seed of [1, 2, 3]) {
      const decisions = decodeDecisions(written(seed));
      // Hedging is asked for by a call of its own.
      const report = shadowLog(decisions, shadowOf("no-hedging"));
      expect(report.offers).toBeGreaterThan(50);
      expect(report.agreed).toBe(report.offers);
      const dispatched = report.pairs.find(({ live }) => live === "dispatch");
      expect(report.sameReplica).toBe(dispatched?.offers);
    }
  });

  test("tells what other rules would have done, and how the pool's own dispatches ended", () => {
    const log = new DecisionLog(aReadyPool({ replicaCount: 2 }));
    const attainment = { kind: "good", missed: [], isDegraded: false } as const;
    const [dispatched] = log.call({ kind: "offer", offer: anOffer("in-time") }, 1);
    if (dispatched?.kind !== "dispatch") throw new Error("An idle pool dispatches");
    log.call({ kind: "offer", offer: anOffer("late", { targets: firstTokenWithin(1) }) }, 2);
    const outcome = { kind: "completed", attainment } as const;
    log.call({ kind: "settle", leaseId: dispatched.leaseId, outcome }, 300);
    const report = shadowLog(decodeDecisions(textOf(log)), shadowOf("no-admission"));
    expect(report.pairs).toEqual([
      { live: "dispatch", shadow: "dispatch", offers: 1, good: 1, missed: 0 },
      { live: "reject", shadow: "dispatch", offers: 1, good: 0, missed: 0 },
    ]);
    expect(report.differing).toMatchObject([{ requestId: "late", live: { kind: "reject" } }]);
    expect(report.byTenant).toEqual({ "tenant-a": { offers: 2, agreed: 1 } });
  });

  test("counts by any name that a tenant may have", () => {
    const log = new DecisionLog(aReadyPool());
    log.call(
      { kind: "offer", offer: anOffer("r", { tenantId: TenantId.parse("constructor") }) },
      1,
    );
    const { byTenant } = shadowLog(decodeDecisions(textOf(log)), shadowOf("no-hedging"));
    expect(Object.entries(byTenant)).toEqual([["constructor", { offers: 1, agreed: 1 }]]);
  });

  test("takes another's refusal for no verdict on the offer that led to it", () => {
    const offer = anOffer("waits");
    const rejection = {
      code: "server_is_overloaded",
      reason: "queue-full",
      predictedWaitMs: 1,
    } as const;
    const effect = { kind: "reject", requestId: anOffer("other").requestId } as const;
    const refused = { ...effect, rejection: { ...rejection, retryAfterMs: 1, promptTokens: 1 } };
    expect(verdictIn([refused], offer)).toEqual({ kind: "wait" });
  });

  test("shows policies what is outstanding where", () => {
    const log = new DecisionLog(aReadyPool({ replicaCount: 2 }));
    for (let index = 0; index < 6; index += 1) {
      log.call({ kind: "offer", offer: anOffer(`r${index}`) }, 1 + index);
    }
    const report = shadowLog(decodeDecisions(textOf(log)), shadowOf("least-outstanding"));
    expect(report.pairs).toMatchObject([{ live: "dispatch", shadow: "dispatch", offers: 6 }]);
    // With one more on one of them there is no choice: every second offer goes where the pool sent it, if it balances.
    expect(report.sameReplica).toBeGreaterThanOrEqual(3);
  });
});

function shadowOf(name: string) {
  const decider = deciderOf(name, EPOCH);
  if (decider === undefined) throw new Error(`Expected somebody named ${name}`);
  return decider;
}
