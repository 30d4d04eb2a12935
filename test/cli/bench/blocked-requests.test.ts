import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BlockedRequests, FIGURE_NAMES } from "../../../cli/bench/blocked-requests.ts";
import type { RequestDetail } from "../../../cli/bench/load-result.ts";
import { quantileOf } from "../../../simulator/statistics.ts";

const latency = fc.option(fc.integer({ min: 1, max: 5 }));
const request = fc.record<RequestDetail>({
  tenant: fc.constant(0),
  due_s: fc.constant(0),
  ttft_ms: latency,
  tpot_ms: latency,
  e2el_ms: latency,
  ending: fc.constantFrom("answered", "refused", "failed"),
  good: fc.boolean(),
});
const load = fc
  .array(request, { minLength: 1, maxLength: 36 })
  .chain((requests) =>
    fc.tuple(fc.constant(requests), fc.array(fc.nat(3), { minLength: 36, maxLength: 36 })),
  );

/** Puts what was drawn together, and sorts it. */
function naiveFigures(requests: readonly RequestDetail[]): number[] {
  const admitted = requests.filter(({ ending }) => ending !== "refused");
  const shareOf = (part: readonly RequestDetail[]) => (100 * part.length) / requests.length;
  return [
    shareOf(requests.filter(({ good }) => good)),
    shareOf(requests.filter(({ ending }) => ending === "refused")),
    ...(["ttft_ms", "tpot_ms", "e2el_ms"] as const).flatMap((metric) => {
      const values = admitted.map((each) => each[metric] ?? Infinity);
      return [0.5, 0.99].map((ratio) => (values.length === 0 ? NaN : quantileOf(values, ratio)));
    }),
  ];
}

describe("BlockedRequests", () => {
  test("tells of blocks, however often each was drawn, what their requests together say", () => {
    fc.assert(
      fc.property(load, ([requests, drawn]) => {
        const size = Math.max(1, Math.round(Math.sqrt(requests.length)));
        const blocked = new BlockedRequests(requests);
        const times = Uint32Array.from(drawn.slice(0, blocked.whole.length));
        const together = [...times].flatMap((count, block) =>
          Array.from({ length: count }, () =>
            requests.slice(block * size, (block + 1) * size),
          ).flat(),
        );
        fc.pre(together.length > 0);
        const figures = blocked.figuresOf(times);
        expect(figures).toEqual(naiveFigures(together));
        expect(figures).toHaveLength(FIGURE_NAMES.length);
        expect(blocked.whole).toHaveLength(Math.ceil(requests.length / size));
      }),
    );
  });
});
