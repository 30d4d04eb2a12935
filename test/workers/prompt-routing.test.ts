import { describe, expect, test, vi } from "vitest";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, WAIT } from "./support/gateway.ts";
import { namesOf } from "./support/prompt-names.ts";
import { streamedAnswer } from "./support/upstream.ts";

const TEXT = "The quick brown fox jumps over the lazy dog. ".repeat(60);

const promptOf = (number: number) => ({
  messages: [{ role: "user", content: `${number} ${TEXT}` }],
  stream: true,
});

/** Which replica each of some requests was sent to, the first one having number 0. */
async function placesOf(gateway: TestGateway, bodies: readonly object[]): Promise<number[]> {
  await gateway.upstream.answerWith(streamedAnswer(["Yes"]));
  for (const body of bodies) {
    // oxlint-disable-next-line no-await-in-loop -- nothing else is to run meanwhile
    await (await gateway.ask({ body })).text();
  }
  const decided = (await gateway.decisions()).flatMap(({ calls }) => calls);
  const places = decided.flatMap(({ effects }) =>
    effects.flatMap((effect) => (effect.kind === "dispatch" ? effect.dispatch.replicaId : [])),
  );
  return places.map((replicaId) =>
    [0, 1, 2, 3].findIndex((number) => gateway.upstream.endpointUrlOf(number) === replicaId),
  );
}

const isMostly = (place: number) => (places: readonly number[]) =>
  places.filter((each) => each === place).length >= places.length - 2;

describe("a request", () => {
  test("goes where a replica says that its prompt is cached", async () => {
    const gateway = await aGateway({ replicaCount: 4 });
    const bodies = Array.from({ length: 12 }, (_, number) => promptOf(number));
    const stored = bodies.map((body) => namesOf(gateway, body)).join("");
    gateway.replicas[2]?.report({ cached: { sequence: 1, isWhole: true, stored, removed: "" } });
    expect(await placesOf(gateway, bodies)).toSatisfy(isMostly(2));
  });

  test("goes where one with the same beginning was sent before anybody has said so", async () => {
    const gateway = await aGateway({ replicaCount: 4 });
    const places = await placesOf(
      gateway,
      Array.from({ length: 12 }, () => promptOf(7)),
    );
    expect(places).toSatisfy(isMostly(places[0] ?? -1));
  });

  test("of servers that tell nothing goes where its beginning was sent before", async () => {
    const gateway = await aGateway({ replicaCount: 4, pool: { engine: "openai" } });
    const places = await placesOf(
      gateway,
      Array.from({ length: 12 }, () => promptOf(7)),
    );
    expect(places).toSatisfy(isMostly(places[0] ?? -1));
    const headers = (await gateway.upstream.requests()).map((request) => request.headers);
    expect(headers.filter((each) => "x-gw-chain" in each || "x-gw-cache-salt" in each)).toEqual([]);
  });
});

test("a request tells the replica it is sent to of a full one that has its prompt cached", async () => {
  const gateway = await aGateway({ replicaCount: 2 });
  const body = promptOf(1);
  const cached = { sequence: 1, isWhole: true, stored: namesOf(gateway, body), removed: "" };
  const [full, other] = gateway.replicas;
  full?.report({ cached, runningRequests: 16, queuedRequests: 1_000 });
  other?.report({});
  expect(await placesOf(gateway, [body])).toEqual([1]);
  const [headers] = (await gateway.upstream.requests()).map((request) => request.headers);
  expect(headers?.["x-gw-kv-peer"]).toBe(gateway.upstream.endpointUrlOf(0));
});

const cachedOf = (sequence: number) => ({
  sequence,
  isWhole: false,
  stored: "abcdefgh",
  removed: "",
});

describe("a pool that has missed something of what a replica has cached", () => {
  test("asks for all of it, and not when nothing is missing", async () => {
    const gateway = await aGateway();
    const [replica] = gateway.replicas;
    const asked: unknown[] = [];
    replica?.socket.addEventListener("message", ({ data }) => asked.push(data));
    replica?.report({ cached: cachedOf(1) });
    replica?.report({ cached: cachedOf(2) });
    replica?.report({ cached: cachedOf(4) });
    await vi.waitFor(() => expect(asked).toEqual(["prefixes"]), WAIT);
  });
});
