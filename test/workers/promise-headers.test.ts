import { describe, expect, test } from "vitest";
import { BUILT_IN_CLASSES } from "../../src/slo/targets.ts";
import type { Offer } from "../../src/pool/offer.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, COMPLETION_PATH, EMBEDDINGS_PATH, readEvents } from "./support/gateway.ts";
import { jsonAnswer, streamedAnswer, streamedCompletion, wholeAnswer } from "./support/upstream.ts";

const TENANT = {
  className: "standard",
  targets: BUILT_IN_CLASSES["standard"] ?? {},
  classes: ["interactive", "bulk"].map((className) => ({
    className,
    targets: BUILT_IN_CLASSES[className] ?? {},
  })),
};
const SHORT = { max_tokens: 4 };

async function offersOf({ decisions }: TestGateway): Promise<Offer[]> {
  const calls = (await decisions()).flatMap((record) => record.calls);
  return calls.flatMap(({ call }) => (call.kind === "offer" ? [call.offer] : []));
}

async function lastOffer(gateway: TestGateway): Promise<Offer | undefined> {
  return (await offersOf(gateway)).at(-1);
}

/** Asks with headers and a body, and tells what the pool was asked for. */
async function offerOf(
  gateway: TestGateway,
  headers: Readonly<Record<string, string>>,
  body: object = {},
): Promise<Offer | undefined> {
  await gateway.upstream.answerWith(wholeAnswer("a"));
  const response = await gateway.ask({ headers, body: { ...SHORT, ...body } });
  expect(response.status).toBe(200);
  return lastOffer(gateway);
}

describe("the promise of a request", () => {
  test("is its tenant's, and a looser header changes nothing of it", async () => {
    const gateway = await aGateway({ tenant: TENANT });
    const plain = await offerOf(gateway, {});
    expect(plain).toMatchObject({ targets: TENANT.targets });
    const looser = await offerOf(gateway, {
      "x-sluice-ttft-ms": "60000",
      "x-sluice-tpot-ms": "5000.5",
    });
    expect(looser?.targets).toEqual(plain?.targets);
    expect(looser).not.toHaveProperty("promised");
  });

  test("is made tighter by a header, at all operations and whether streamed or whole", async () => {
    const gateway = await aGateway({ tenant: TENANT });
    const headers = { "x-sluice-ttft-ms": "1250.5", "x-sluice-tpot-ms": " 90.25 " };
    const usage = { prompt_tokens: 1, total_tokens: 1 };
    await gateway.upstream.answerWith(
      wholeAnswer("a"),
      streamedAnswer(["a"]),
      streamedCompletion(["a"]),
      jsonAnswer({ object: "list", data: [{ index: 0, embedding: [1] }], model: "m", usage }),
    );
    for (const wish of [
      { body: SHORT },
      { body: { ...SHORT, stream: true } },
      { path: COMPLETION_PATH, body: { prompt: "a", stream: true, ...SHORT } },
      { path: EMBEDDINGS_PATH, body: { input: "a" } },
    ]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await (await gateway.ask({ ...wish, headers })).text();
    }
    const offers = await offersOf(gateway);
    expect(offers.map(({ targets }) => [targets.ttft?.limitMs, targets.tpot?.limitMs])).toEqual(
      Array.from({ length: 4 }, () => [1250.5, 90.25]),
    );
    // It is judged by what was promised, and nobody makes way for a wish.
    expect(offers.map(({ promised }) => promised)).toEqual(
      Array.from({ length: 4 }, () => TENANT.targets),
    );
    const sent = await gateway.upstream.requests();
    expect(new Set(sent.map((request) => request.headers["x-gw-tbt-ms"]))).toEqual(
      new Set(["100"]),
    );
    expect(sent.flatMap((request) => Object.keys(request.headers))).not.toContain(
      "x-sluice-ttft-ms",
    );
  });

  test("tells an engine the promised deadline, so that a wish gets nobody ahead there", async () => {
    const gateway = await aGateway({ tenant: TENANT });
    await gateway.upstream.answerWith(streamedAnswer(["a"]));
    const deadlineWith = async (headers: Record<string, string>): Promise<number> => {
      await (await gateway.ask({ headers, body: { ...SHORT, stream: true } })).text();
      return Number((await gateway.upstream.requests()).at(-1)?.headers["x-gw-deadline-ms"]);
    };
    expect(await deadlineWith({})).toBeGreaterThan(1_000);
    expect(await deadlineWith({ "x-sluice-ttft-ms": "900" })).toBeGreaterThan(1_000);
  });

  test("is another one of the tenant's classes where the request asks for that", async () => {
    const gateway = await aGateway({ tenant: TENANT });
    const byHeader = await offerOf(gateway, { "x-sluice-class": "bulk" });
    const byTier = await offerOf(gateway, {}, { service_tier: "flex" });
    expect(byHeader?.targets).toEqual(BUILT_IN_CLASSES["bulk"]);
    expect(byTier?.targets).toEqual(BUILT_IN_CLASSES["bulk"]);
  });

  test("does not depend on another tenant's name, a priority, or a header of ours in a client's hand", async () => {
    const gateway = await aGateway({ tenant: TENANT });
    const plain = await offerOf(gateway, {});
    const forged = await offerOf(
      gateway,
      {
        "x-sluice-tenant": "other",
        "x-gw-tenant": "other",
        "x-gw-priority": "-9",
        "x-gw-deadline-ms": "1",
        "x-gw-tbt-ms": "1",
        "x-sluice-priority": "-9",
      },
      { priority: -9, user: "other" },
    );
    const { tenantId, share, targets } = plain ?? {};
    expect(forged).toMatchObject({ tenantId, share, targets });
    const [first, second] = (await gateway.upstream.requests()).map(({ headers }) => headers);
    expect(second).not.toHaveProperty("x-gw-priority");
    expect(second?.["x-gw-tenant"]).toBe(first?.["x-gw-tenant"]);
    expect(second?.["x-gw-tbt-ms"]).toBe(first?.["x-gw-tbt-ms"]);
  });

  test.each([
    ["x-sluice-ttft-ms", "0"],
    ["x-sluice-ttft-ms", "-1"],
    ["x-sluice-ttft-ms", "1e3"],
    ["x-sluice-ttft-ms", "250,5"],
    ["x-sluice-ttft-ms", "250ms"],
    ["x-sluice-ttft-ms", "Infinity"],
    ["x-sluice-tpot-ms", ""],
    ["x-sluice-tpot-ms", "0x10"],
  ])("refuses %s: %j, and asks no pool", async (name, value) => {
    const gateway = await aGateway({ tenant: TENANT });
    const response = await gateway.ask({ headers: { [name]: value } });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_value", param: name } });
    expect(await gateway.poolStatus()).toMatchObject({ offered: 0 });
  });

  test("of a class or tier that the tenant has not is refused by its name", async () => {
    const gateway = await aGateway({ tenant: { ...TENANT, classes: [] } });
    const byTier = await gateway.ask({ body: { service_tier: "priority" } });
    expect(byTier.status).toBe(400);
    expect(await byTier.json()).toMatchObject({
      error: {
        param: "service_tier",
        message:
          "Expected a tier whose class the tenant has (standard) in 'service_tier', found \"priority\"",
      },
    });
    const byClass = await gateway.ask({ headers: { "x-sluice-class": "standrad" } });
    expect(await byClass.json()).toMatchObject({
      error: {
        param: "x-sluice-class",
        message:
          "Expected one of the tenant's classes (standard) in 'x-sluice-class', " +
          "found \"standrad\": did you mean 'standard'?",
      },
    });
    const unknown = await gateway.ask({ body: { service_tier: "ultra" } });
    expect(await unknown.json()).toMatchObject({ error: { param: "service_tier" } });
  });
});

describe("service_tier in an answer", () => {
  test.each([
    [{}, {}, "default"],
    [{ service_tier: "auto" }, {}, "default"],
    [{ service_tier: "fast" }, {}, "priority"],
    [{ service_tier: "flex" }, {}, "flex"],
    [{ service_tier: "flex" }, { "x-sluice-class": "standard" }, "default"],
  ])("of %j with %j is %s, whole and in every chunk", async (body, headers, told) => {
    const gateway = await aGateway({ tenant: TENANT });
    await gateway.upstream.answerWith(wholeAnswer("a"), streamedAnswer(["a", "b", "c"]));
    const whole = await gateway.ask({ headers, body: { ...SHORT, ...body } });
    expect(await whole.json()).toMatchObject({ service_tier: told });
    const streamed = await gateway.ask({ headers, body: { ...SHORT, ...body, stream: true } });
    const events = await readEvents(streamed);
    const tiers = events.slice(0, -1).map(({ data }) => Object(data).service_tier);
    expect(new Set(tiers)).toEqual(new Set([told]));
    const sent = (await gateway.upstream.requests()).map((request) => JSON.parse(request.body));
    for (const asked of sent) expect(asked).not.toHaveProperty("service_tier");
  });
});
