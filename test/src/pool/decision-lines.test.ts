import { describe, expect, test } from "vitest";
import { decodeDecisions, encodeDecisions } from "../../../src/pool/decision-lines.ts";
import { DecisionLog, replay } from "../../../src/pool/decision-log.ts";
import { Pool } from "../../../src/pool/pool.ts";
import { aLivePool, anOffer, NO_GUARANTEE } from "../../support/pool-builders.ts";
import { aHello, aReport, EPOCH, replicaIdOf } from "../../support/replica-builders.ts";

const OPTIONS = { epoch: EPOCH, startedAtMs: 0, seed: 1 };

/** The log of a busy second in which requests were sent, displaced, left waiting and refused. */
function aLog(): { readonly epoch: string; readonly records: DecisionLog["records"] } {
  const log = new DecisionLog(new Pool(OPTIONS), 16);
  log.call({ kind: "configure", pool: aLivePool(1) }, 3_000);
  log.call({ kind: "connected", hello: aHello(0) }, 3_000);
  log.call({ kind: "report", replicaId: replicaIdOf(0), report: aReport(1) }, 3_000);
  for (let index = 0; index < 20; index += 1) {
    const share = index % 3 === 0 ? { share: NO_GUARANTEE } : {};
    log.call({ kind: "offer", offer: anOffer(`r${index}`, share) }, 3_000 + index);
  }
  log.call({ kind: "wake" }, 5_000);
  return { epoch: EPOCH, records: () => log.records() };
}

function written(charactersMax = Infinity): string {
  const { epoch, records } = aLog();
  return [...encodeDecisions({ epoch, records: records() }, charactersMax)].join("");
}

describe("encodeDecisions()", () => {
  test("a log that was written and read makes every decision again", () => {
    const { epoch, records, isWhole } = decodeDecisions(written());
    expect([epoch, isWhole, records.length]).toEqual([EPOCH, true, 2]);
    const kinds = records.flatMap(({ calls }) => calls.flatMap(({ effects }) => effects));
    expect(new Set(kinds.map(({ kind }) => kind))).toEqual(
      new Set(["dispatch", "displace", "reject", "wake"]),
    );
    for (const record of records) expect(replay(record, OPTIONS)).toEqual([]);
  });

  test("a pool that goes by other rules is told from the one that wrote it", () => {
    const { records } = decodeDecisions(written());
    const otherRules = { ...OPTIONS, mechanisms: { queue: false } };
    expect(records.flatMap((record) => replay(record, otherRules))).not.toEqual([]);
  });

  test("a log that is longer than its text may be ends early, between two lines, and says so", () => {
    const whole = written();
    const cut = written(whole.length - 1);
    expect(whole.startsWith(cut)).toBe(true);
    expect(cut.endsWith("\n")).toBe(true);
    expect(decodeDecisions(cut)).toMatchObject({ isWhole: false });
  });

  test("what is called after the log was read is not in it", () => {
    const log = new DecisionLog(new Pool(OPTIONS));
    const records = log.records();
    log.call({ kind: "wake" }, 1);
    expect(records.map(({ calls }) => calls)).toEqual([[]]);
  });
});

describe("decodeDecisions()", () => {
  test.each([
    ["is empty", "", "begins with its head"],
    ["has a call before any snapshot", '{"kind":"call"}\n', "after the snapshot"],
  ])("refuses a text that %s", (_, text, message) => {
    expect(() => decodeDecisions(text)).toThrow(message);
  });
});
