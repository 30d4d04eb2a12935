import * as fc from "fast-check";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import type { EngineLimits } from "../../../cli/calibrate/engine-point.ts";
import { fitProfile } from "../../../cli/calibrate/fit-profile.ts";
import type { ProbedAnswer } from "../../../cli/calibrate/measure-engine.ts";
import { measureEngine } from "../../../cli/calibrate/measure-engine.ts";
import { nonnegativeFit } from "../../../cli/calibrate/nonnegative-fit.ts";
import { findProfile } from "../../../cli/plan/profile-file.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import type { HardwareProfile } from "../../../simulator/hardware-profile.ts";
import {
  LLAMA_70B_H100_TP4,
  LLAMA_8B_H200,
  LLAMA_8B_RTX_PRO_6000,
} from "../../../simulator/hardware-profile.ts";
import { SimulatedReplica } from "../../../simulator/simulated-replica.ts";
import { stepTimeMs } from "../../../simulator/step-time.ts";
import { World } from "../../../simulator/world.ts";
import type { PacedServer } from "../bench/paced-server.ts";
import { startPacedServer } from "../bench/paced-server.ts";
import { runRecorded } from "../support/recorded-terminal.ts";

const folder = createRunFolder();
afterAll(() => folder.remove());
const NAMED = { name: "measured", source: "a test" };

/** Our own scheduler on a machine whose steps take what its profile says. */
function simulatedEngine(profile: HardwareProfile) {
  const world = new World(7);
  const chunks = new Map<string, { readonly atMs: number[]; readonly onEnd: () => void }>();
  const replica = new SimulatedReplica({
    world,
    profile,
    endpointUrl: "http://engine.example",
    modelId: "model",
    onChange: () => undefined,
    onEvents: (events) => {
      for (const event of events) {
        const answer = chunks.get(event.id);
        if (event.kind === "token") answer?.atMs.push(world.nowMs);
        else if (event.kind === "finished") answer?.onEnd();
        else throw new Error(`a request ended as ${event.kind}`);
      }
    },
  });
  let asked = 0;
  return async (size: { promptTokens: number; outputTokens: number }): Promise<ProbedAnswer> => {
    asked += 1;
    const id = String(asked);
    const sentAtMs = world.nowMs;
    const atMs: number[] = [];
    const progress = { isOver: false };
    chunks.set(id, { atMs, onEnd: () => (progress.isOver = true) });
    const unique = asked * 100_000;
    replica.submit({
      id,
      tenant: "t",
      promptTokenIds: Array.from({ length: size.promptTokens }, (_, index) => unique + index),
      answerTokenIds: Array.from({ length: size.outputTokens }, (_, index) => index + 1),
    });
    // Whoever asks together has asked before anything happens.
    while (!progress.isOver) {
      await Promise.resolve();
      world.runToEnd({ endAtMs: world.nowMs + 1, eventsMax: 1_000 });
    }
    return {
      sentAtMs,
      chunksAtMs: atMs,
      inputTokens: size.promptTokens,
      outputTokens: size.outputTokens,
    };
  };
}

function limitsOf(profile: HardwareProfile): EngineLimits {
  return {
    sequencesMax: 64,
    batchTokensMax: profile.batchTokensMax,
    kvTokens: profile.blockCount * profile.blockTokens,
    contextTokens: 16_384,
  };
}

describe("measuring an engine and fitting its profile", () => {
  test.each([LLAMA_8B_H200, LLAMA_70B_H100_TP4, LLAMA_8B_RTX_PRO_6000])(
    "tells the steps of an engine that it has never seen ($name)",
    async (truth) => {
      const limits = limitsOf(truth);
      const ask = simulatedEngine(truth);
      const points = await measureEngine({ ...limits, ask, roundTripMs: 0 });
      const { profile, meanErrorRatio } = fitProfile(points, limits, NAMED);
      expect(meanErrorRatio).toBeLessThan(0.05);
      // Not the points that it was fitted to: batches between them, and a prompt beside answers.
      for (const [sequences, context, prompt] of [
        [1, 1_000, 0],
        [24, 1_500, 0],
        [48, 3_000, 0],
        [0, 0, 5_000],
        [16, 1_000, 2_000],
      ] as const) {
        const work = {
          tokens: sequences + prompt,
          attendedPairs: sequences * context + (prompt * (prompt + 1)) / 2,
          sequences: sequences + (prompt > 0 ? 1 : 0),
          kvTokens: sequences * context + prompt,
        };
        const ratio = stepTimeMs(profile, work) / stepTimeMs(truth, work);
        expect(Math.abs(ratio - 1), `${sequences} × ${context} and ${prompt}`).toBeLessThan(0.12);
      }
      expect(profile.kvTokenMs / truth.kvTokenMs).toBeCloseTo(1, 0);
      expect(profile.noiseRatio).toBeLessThan(0.15);
    },
  );

  test("says so where answers never ran together, instead of a profile of nothing", async () => {
    const one = simulatedEngine({ ...LLAMA_8B_H200, sequencesMax: 1 });
    const limits = { ...limitsOf(LLAMA_8B_H200), sequencesMax: 8 };
    await expect(measureEngine({ ...limits, ask: one, roundTripMs: 0 })).rejects.toThrow(
      "answers never ran together",
    );
  });

  test("refuses to fit what tells nothing", () => {
    const limits = limitsOf(LLAMA_8B_H200);
    const decodes = [1, 2, 4].map((sequences) => ({
      kind: "decode" as const,
      sequences,
      kvTokens: 100 * sequences,
      stepMs: 10 + sequences,
      noiseRatio: 0,
    }));
    const prefills = [100, 200, 400].map((promptTokens) => ({
      kind: "prefill" as const,
      promptTokens,
      stepMs: 10,
    }));
    expect(() => fitProfile(prefills, limits, NAMED)).toThrow("found 0");
    expect(() => fitProfile([...decodes, ...prefills], limits, NAMED)).toThrow("raise");
    const flat = prefills.map((point) => ({ ...point, stepMs: 100 }));
    expect(() => fitProfile([...decodes, ...flat], limits, NAMED)).toThrow(
      /did not take longer.*--max-batch-tokens.*measure again/,
    );
    // The noise of three prompts bends the curve upwards; longer ones took longer all the same.
    const bent = [100, 200, 400].map((promptTokens, index) => ({
      kind: "prefill" as const,
      promptTokens,
      stepMs: [100, 101, 190][index] ?? 0,
    }));
    const { profile } = fitProfile([...decodes, ...bent], limits, NAMED);
    expect(profile.tokenMs).toBeGreaterThan(0.1);
    expect(profile.attendedPairMs).toBe(0);
  });
});

describe("nonnegativeFit()", () => {
  test("finds the coefficients that made the samples", () => {
    const size = fc.double({ min: 0.01, max: 10, noNaN: true });
    fc.assert(
      fc.property(size, size, size, (a, b, c) => {
        const samples = [1, 2, 4, 8, 16].flatMap((n) =>
          [100, 5_000].map((m) => ({
            terms: [1, n, n * m],
            value: a + b * n + (c / 1e4) * n * m,
          })),
        );
        const found = nonnegativeFit(samples, 3);
        expect(found[0]).toBeCloseTo(a, 4);
        expect(found[1]).toBeCloseTo(b, 4);
        expect((found[2] ?? 0) * 1e4).toBeCloseTo(c, 4);
      }),
    );
  });

  test("has none below 0, and misses no more than with that one left out", () => {
    const samples = [1, 2, 3].map((n) => ({ terms: [1, n], value: 10 - n }));
    const [fixed = 0, slope] = nonnegativeFit(samples, 2);
    expect(slope).toBe(0);
    expect(fixed).toBeGreaterThan(7);
    expect(fixed).toBeLessThan(9);
  });
});

describe("sluice calibrate", () => {
  let server: PacedServer | undefined;
  afterEach(() => {
    vi.unstubAllEnvs();
    return server?.close();
  });

  const SMALL = ["--kv-tokens", "4096", "--max-sequences", "2", "--context", "1024"];

  test("writes a profile that sluice plan takes", async () => {
    server = await startPacedServer(({ words }) => ({
      kind: "stream",
      ttftMs: 30 + words / 2,
      gapMs: 10,
    }));
    const out = join(folder.path, "profile.json");
    const words = [server.url, ...SMALL, "--name", "mine", "--out", out];
    const { exitCode, stdout, stderr } = await runRecorded("calibrate", ...words);
    if (exitCode !== 0) throw new Error(stderr);
    expect(stdout).toMatch(/^Mean error \d/m);
    expect(stderr).toMatch(/^prompt of \d+: \d/m);
    const profile = findProfile(out);
    expect(profile).toMatchObject({ name: "mine", sequencesMax: 2, blockCount: 256 });
    expect(profile.source).toContain(`measured at ${server.url}`);
    // Half a millisecond a word, of which it makes two tokens; timers are late under load, never early.
    expect(profile.tokenMs).toBeGreaterThan(0.1);
    expect(server.asked.every(({ ignoresEos }) => ignoresEos)).toBe(true);
    expect(readFileSync(out, "utf8")).toMatch(/\}\n$/);
  });

  test("says what went wrong, and writes nothing then", async () => {
    server = await startPacedServer((_asked, place) =>
      place < 4
        ? { kind: "stream", ttftMs: 1, gapMs: 1 }
        : { kind: "status", status: 503, body: '{"error":{"code":"server_is_overloaded"}}' },
    );
    const out = join(folder.path, "none.json");
    const run = await runRecorded("calibrate", server.url, ...SMALL, "--out", out);
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toContain("It refused a request (503 server_is_overloaded)");
    expect(() => readFileSync(out)).toThrow("ENOENT");
    const asked = server.asked.length;
    const nowhere = join(folder.path, "no", "profile.json");
    const refused = await runRecorded("calibrate", server.url, ...SMALL, "--out", nowhere);
    expect(refused).toMatchObject({ exitCode: 1 });
    expect(refused.stderr).toContain(`${nowhere}: ENOENT`);
    expect(server.asked).toHaveLength(asked);
    const url = server.url;
    await server.close();
    server = undefined;
    expect((await runRecorded("calibrate", url, ...SMALL)).stderr).toContain("No answer");
    vi.stubEnv("EMPTY_TOKEN", "");
    const keyless = await runRecorded("calibrate", url, ...SMALL, "--token-env", "EMPTY_TOKEN");
    expect(keyless.stderr).toContain("Expected EMPTY_TOKEN in the environment");
    expect((await runRecorded("calibrate", url)).stderr).toContain("Expected --kv-tokens");
    expect((await runRecorded("calibrate")).stderr).toContain("Expected the URL of the engine");
  });
});
