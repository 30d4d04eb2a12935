import { join } from "node:path";
import { expect, test } from "vitest";
import { linesOf } from "../../../simulator/traces/lines.ts";
import { vtcArrivals } from "../../../simulator/traces/vtc.ts";
import { sharedTraces } from "../shared-traces.ts";

const HEADER = "req_id,client,arrival_s,input_tokens,output_tokens";

test("a row is one request of its client", () => {
  const lines = [HEADER, "0,13,0.0,13,199", "1,2,0.2079,36,137"];
  expect([...vtcArrivals(lines, { requestsMax: 10, tenantIndex: 100 })]).toMatchObject([
    { atMs: 0, tenantIndex: 113, promptTokens: 13, outputTokens: 199 },
    { atMs: expect.closeTo(207.9, 6), tenantIndex: 102, promptTokens: 36, outputTokens: 137 },
  ]);
});

test("a client that is no number is an error", () => {
  const lines = [HEADER, "0,alice,0.0,13,199"];
  expect(() => [...vtcArrivals(lines, { requestsMax: 10 })]).toThrow(
    'Line 2: expected a whole number of at least 0 as client, found "alice"',
  );
});

test("the public trace has 1,500 requests of 27 clients in ten minutes", (context) => {
  const path = join(sharedTraces(context), "vtc/vtc_real_trace.csv");
  const arrivals = [...vtcArrivals(linesOf(path), { requestsMax: 10_000 })];
  expect(arrivals).toHaveLength(1500);
  expect(new Set(arrivals.map(({ tenantIndex }) => tenantIndex)).size).toBe(27);
  expect(arrivals.at(-1)?.atMs).toBe(600_000);
});
