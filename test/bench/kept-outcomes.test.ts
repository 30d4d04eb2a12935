import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { KeptOutcomes } from "../../bench/support/kept-outcomes.ts";
import { CONTENDERS } from "../../bench/support/policy-contenders.ts";
import { loadOf } from "../../bench/support/policy-scenarios.ts";
import { digestOfProgram } from "../../bench/support/source-digest.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";

const folder = createRunFolder();
afterAll(() => folder.remove());

const [roundRobin, leastOutstanding] = CONTENDERS;
const LIGHT = loadOf(0.5);
const at = (seed: number) => ({ seed, length: { warmUpMs: 100, measuredMs: 200 } });

test("what a run came to is kept on file, as it was, and taken from there instead of made again", () => {
  if (roundRobin === undefined || leastOutstanding === undefined) throw new Error("Expected two");
  const file = join(folder.path, "kept.ndjson");
  const kept = new KeptOutcomes(file, 1_000);
  const outcome = kept.of(LIGHT, roundRobin, at(1));
  expect(outcome.tenants.length).toBe(3);
  // As when the program was ended in the midst of a line.
  writeFileSync(file, `${readFileSync(file, "utf8")}{"key":"load-0.5|FI`);
  const again = new KeptOutcomes(file, 0);
  expect(again.of(LIGHT, roundRobin, at(1))).toEqual(outcome);
  for (const [contender, seed] of [
    [roundRobin, 2],
    [leastOutstanding, 1],
  ] as const) {
    expect(() => again.of(LIGHT, contender, at(seed))).toThrow("Stopped behind 0 runs");
  }
  expect(() => again.of(loadOf(1), roundRobin, at(1))).toThrow("go on with the same flags");
});

test("a program's digest is of all that it imports, but for what it is to leave out", () => {
  const digest = digestOfProgram("bench/support/policy-run.ts");
  expect(digest).toMatch(/^[0-9a-f]{16}$/);
  expect(digestOfProgram("bench/support/policy-run.ts")).toBe(digest);
  const withoutCore = digestOfProgram("bench/support/policy-run.ts", [
    "simulator/pool-dispatcher.ts",
  ]);
  expect(withoutCore).not.toBe(digest);
});
