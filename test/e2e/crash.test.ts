import { expect, test } from "vitest";
import { runCrashRounds } from "../../bench/crash/crash-rounds.ts";

// `npm run crash` has more rounds, and waits until what was left open is settled.
test("a gateway that is killed under load has lost nothing whose end a client saw, and counts nothing twice", async () => {
  const report = await runCrashRounds({ rounds: 3, seed: 7, awaitsSweep: false });
  expect(report.disagreements).toEqual([]);
  expect(report.seen).toBeGreaterThan(0);
  expect(report.cut).toBeGreaterThan(0);
}, 120_000);
