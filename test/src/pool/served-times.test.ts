import { describe, expect, test } from "vitest";
import { encodeMetrics, NO_LABELS, withLabel } from "../../../src/base/metric-text.ts";
import { ModelId } from "../../../src/protocol/ids.ts";
import { ServedTimes } from "../../../src/pool/served-times.ts";
import { anOffer, aReadyPool } from "../../support/pool-builders.ts";
import { parseMetrics, valueOf } from "../../support/metric-lines.ts";
import { leaseOf } from "./full-pool.ts";

const POOL = withLabel(NO_LABELS, "pool", "local");
const linesOf = (times: ServedTimes) => parseMetrics(encodeMetrics(times.metrics(POOL)));
const chatWith = (modelId: string) => ({ operation: "chat", modelId }) as const;

/** Their bounds in OpenTelemetry's conventions for GenAI, and those that a gateway needs at the ends. */
const BOUNDS = {
  gen_ai_server_time_to_first_token_seconds:
    "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160",
  gen_ai_server_time_per_output_token_seconds:
    "0.001 0.0025 0.005 0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5",
  gen_ai_server_request_duration_seconds:
    "0.01 0.02 0.04 0.08 0.16 0.32 0.64 1.28 2.56 5.12 10.24 20.48 40.96 81.92 163.84 327.68",
};

describe("ServedTimes", () => {
  test("tells the three histograms of the conventions, with their labels and bounds", () => {
    const times = new ServedTimes();
    times.firstToken(chatWith("m"), 0.3);
    times.tokenGap(chatWith("m"), 0.02);
    times.request(chatWith("m"), 4);
    const lines = linesOf(times);
    expect(new Set(lines.map(({ name }) => name.replace(/_(bucket|sum|count)$/, "")))).toEqual(
      new Set(Object.keys(BOUNDS)),
    );
    for (const [name, bounds] of Object.entries(BOUNDS)) {
      const told = lines.filter((line) => line.name === `${name}_bucket`);
      expect(told.map(({ labels }) => labels["le"]).join(" ")).toBe(`${bounds} +Inf`);
    }
    for (const { labels } of lines) {
      expect(labels).toMatchObject({
        pool: "local",
        gen_ai_operation_name: "chat",
        gen_ai_provider_name: "sluice",
        gen_ai_request_model: "m",
      });
    }
    const sums = Object.keys(BOUNDS).map((name) => valueOf(lines, `${name}_sum`));
    expect(sums).toEqual([0.3, 0.02, 4]);
  });

  test("tells operations and models apart, and beyond its bound no models any more", () => {
    const times = new ServedTimes();
    times.request({ operation: "embeddings", modelId: "m" }, 1);
    for (let index = 0; index < 1_000; index += 1) times.request(chatWith(`m${index}`), 1);
    expect(times.state.size).toBeLessThan(200);
    const lines = linesOf(times);
    const count = (labels: Record<string, string>) =>
      valueOf(lines, "gen_ai_server_request_duration_seconds_count", labels);
    expect(count({ gen_ai_operation_name: "embeddings" })).toBe(1);
    expect(count({ gen_ai_request_model: "m0" })).toBe(1);
    expect(count({ gen_ai_request_model: "m999" })).toBeUndefined();
    expect(count({ gen_ai_request_model: "_other" })).toBe(1_000 - (times.state.size - 2));
  });

  test("hears of what a pool's requests asked for", () => {
    const pool = aReadyPool();
    const wish = { operation: "text_completion", modelId: ModelId.parse("sluice-tiny") } as const;
    const leaseId = leaseOf(pool.offer(anOffer("r", { ...wish, elapsedMs: 300 }), 0));
    pool.started(leaseId, 200, 200);
    pool.settle(leaseId, { kind: "completed", outputTokens: 11, decodeMs: 300 }, 700);
    const [series, ...others] = pool.state.totals.served.values();
    expect(others).toEqual([]);
    expect(series).toMatchObject(wish);
    expect([series?.firstToken.sum, series?.tokenGap.sum, series?.request.sum]).toEqual([
      0.5, 0.03, 1,
    ]);
  });
});
