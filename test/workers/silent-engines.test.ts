import { describe, expect, test, vi } from "vitest";
import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { ForeignEngine } from "../../src/protocol/engine-kind.ts";
import { FOREIGN_ENGINES } from "../../src/protocol/engine-kind.ts";
import { firstTokenWithin } from "../support/pool-builders.ts";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { ROLE_FRAME } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import {
  aGateway,
  becomesIdle,
  fetchGateway,
  readEvents,
  textOf,
  WAIT,
} from "./support/gateway.ts";
import { EVENT_STREAM_HEAD, jsonAnswer, streamedAnswer } from "./support/upstream.ts";

const STREAM = { body: { stream: true } };
/** Far longer than the second server takes on a busy machine: of these the first one is given two fifths. */
const TARGET_MS = 5_000;
const HANG = { kind: "hang" } as const;

/** How a server swallows a request: it says nothing at all, or begins an answer that never gets a token. */
const SWALLOWS: readonly (readonly [string, readonly UpstreamStep[]])[] = [
  ["never answers", [HANG]],
  ["sends a head and no token", [EVENT_STREAM_HEAD, ROLE_FRAME, HANG]],
];
const CASES = FOREIGN_ENGINES.flatMap((engine) =>
  SWALLOWS.map(([how, steps]) => ({ engine, how, steps })),
);

/** Two servers that say that they are well, and a tenant who may have one request under way. */
async function aPoolOf(engine: ForeignEngine): Promise<TestGateway> {
  const gateway = await aGateway({
    replicaCount: 2,
    guaranteedRatios: [0, 0],
    pool: { engine },
    tenant: {
      targets: firstTokenWithin(TARGET_MS),
      concurrencyMax: 1,
    },
  });
  const probed = ADAPTERS[engine].probePaths.map((path) => [path, jsonAnswer({})] as const);
  await gateway.upstream.saysOfItself(Object.fromEntries(probed));
  return gateway;
}

async function usageOf({ key }: TestGateway): Promise<Record<string, unknown>> {
  const response = await fetchGateway("/v1/usage", { headers: { authorization: `Bearer ${key}` } });
  return response.json();
}

describe("a request that one of two servers swallows", () => {
  test.each(CASES)(
    "is answered by the other in one stream, where $engine $how",
    async ({ engine, steps }) => {
      const gateway = await aPoolOf(engine);
      await gateway.upstream.answerWith(steps, streamedAnswer(["served", " well"]));
      const response = await gateway.ask(STREAM);
      expect(response.status).toBe(200);
      const events = await readEvents(response);
      expect(textOf(events)).toBe("served well");
      expect(events.map(({ data }) => JSON.stringify(data)).join()).not.toContain('"error"');
      expect(events.filter(({ data }) => data === "[DONE]")).toHaveLength(1);
      expect(events.at(-1)).toEqual({ data: "[DONE]" });

      await vi.waitFor(async () => {
        const requests = await gateway.upstream.requests();
        expect(requests.map(({ closedEarly }) => closedEarly)).toEqual([true, false]);
        expect(new Set(requests.map(({ address }) => address)).size).toBe(2);
      }, WAIT);
      await becomesIdle(gateway);
      expect(await usageOf(gateway)).toMatchObject({
        requests: 1,
        prompt_tokens: 12,
        completion_tokens: 2,
        estimated_requests: 0,
      });
      const { tenants, dispatched } = await gateway.poolStatus();
      expect(dispatched).toBe(2);
      expect(tenants).toMatchObject([{ counts: { offered: 1, admitted: 1, missed: 0 } }]);
      // Its one place is free again.
      await gateway.upstream.answerWith(streamedAnswer(["next"]));
      expect(textOf(await readEvents(await gateway.ask(STREAM)))).toBe("next");
    },
    30_000,
  );
});
