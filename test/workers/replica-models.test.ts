import { describe, expect, test, vi } from "vitest";
import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { ForeignEngine } from "../../src/protocol/engine-kind.ts";
import { ModelId } from "../../src/protocol/ids.ts";
import { refusal, streamThatGoesOn } from "./support/answers.ts";
import type { TestGateway } from "./support/gateway.ts";
import { aGateway, becomesIdle, WAIT } from "./support/gateway.ts";
import { jsonAnswer, wholeAnswer } from "./support/upstream.ts";

const BASE = "sluice-tiny";
const LORA = "sql-lora";
const HANG = { kind: "hang" } as const;
const OK = jsonAnswer({});

/** Two servers of a kind, for a model and an adapter to it. */
async function aPoolOf(engine: ForeignEngine, models?: readonly string[][]): Promise<TestGateway> {
  const lora = ModelId.parse(LORA);
  return aGateway({
    replicaCount: 2,
    guaranteedRatios: [0, 0],
    pool: { engine },
    ...(models !== undefined && {
      replicaSettings: models.map((names) => ({ models: [...names] })),
    }),
    furtherModels: [{ modelId: lora, upstreamModel: LORA }],
    tenant: { modelIds: [ModelId.parse(BASE), lora] },
  });
}

/** That a server of a kind is well, where it is asked that. */
const wellProbes = (engine: ForeignEngine) =>
  Object.fromEntries(ADAPTERS[engine].probePaths.map((path) => [path, OK] as const));

/** What a vLLM answers that has these adapters loaded. */
const vllmList = (...adapters: readonly string[]) =>
  jsonAnswer({
    object: "list",
    data: [
      { id: BASE, object: "model", owned_by: "vllm", root: BASE, parent: null },
      ...adapters.map((id) => ({ id, object: "model", owned_by: "vllm", root: id, parent: BASE })),
    ],
  });
const listing = (id: string) => jsonAnswer({ object: "list", data: [{ id, object: "model" }] });
const NOT_FOUND = refusal(404, {
  error: {
    message: `The model \`${LORA}\` does not exist.`,
    type: "NotFoundError",
    param: "model",
    code: 404,
  },
});

/** Waits until both have said what they have, beside a stream that keeps the pool busy; returns its end. */
async function hold(gateway: TestGateway): Promise<() => void> {
  const left = new AbortController();
  await gateway.ask({ body: { stream: true }, signal: left.signal });
  await vi.waitFor(async () => {
    const { replicas } = await gateway.poolStatus();
    expect(replicas.every(({ models }) => models !== undefined)).toBe(true);
  }, WAIT);
  return () => left.abort();
}

const askLora = (gateway: TestGateway) => gateway.ask({ body: { model: LORA } });
const addressesOf = async (gateway: TestGateway) =>
  (await gateway.upstream.requests())
    .filter(({ body }) => body.includes(LORA))
    .map(({ address }) => address);

describe("a pool whose servers say which models they have", () => {
  test("asks for an adapter only where it is loaded", async () => {
    const gateway = await aPoolOf("vllm");
    await gateway.upstream.saysOfItself({
      "/health": OK,
      "/metrics": OK,
      "0/v1/models": vllmList(),
      "1/v1/models": vllmList(LORA),
    });
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG), wholeAnswer("b"));
    const release = await hold(gateway);
    for (let index = 0; index < 4; index++) expect((await askLora(gateway)).status).toBe(200);
    expect(await addressesOf(gateway)).toEqual([1, 1, 1, 1]);
    release();
    await becomesIdle(gateway);
  });

  test("tells a client whose model none has so, and finds it where it is loaded then", async () => {
    const gateway = await aPoolOf("vllm");
    const probes = { "/health": OK, "/metrics": OK, "/v1/models": vllmList() };
    await gateway.upstream.saysOfItself(probes);
    await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG), wholeAnswer("b"));
    const release = await hold(gateway);
    const refused = await askLora(gateway);
    expect(refused.status).toBe(404);
    expect(await refused.json()).toMatchObject({
      error: {
        code: "model_not_found",
        param: "model",
        message: "No replica has this model at present",
      },
    });
    expect(await addressesOf(gateway)).toEqual([]);
    release();
    await becomesIdle(gateway);
    await gateway.upstream.saysOfItself({ ...probes, "1/v1/models": vllmList(LORA) });
    // Asking for it is what makes the pool look again, though nothing else goes on there.
    await vi.waitFor(async () => expect((await askLora(gateway)).status).toBe(200), {
      timeout: 20_000,
      interval: 200,
    });
    expect(await addressesOf(gateway)).toEqual([1]);
  });

  test.each(["vllm", "sglang", "openai"] as const)(
    "goes on to another server of kind %s where one refuses the model, and leaves that one alone",
    async (engine) => {
      const gateway = await aPoolOf(engine);
      await gateway.upstream.saysOfItself(wellProbes(engine));
      await gateway.upstream.answerWith(NOT_FOUND, wholeAnswer("b"));
      for (let index = 0; index < 3; index++) expect((await askLora(gateway)).status).toBe(200);
      const [first, ...others] = await addressesOf(gateway);
      expect(others).toEqual(Array(3).fill(first === 0 ? 1 : 0));
      await becomesIdle(gateway);
      const { replicas } = await gateway.poolStatus();
      expect(replicas.map(({ health }) => health)).toEqual(["healthy", "healthy"]);
    },
  );

  test.each(["sglang", "trtllm", "tgi"] as const)(
    "never asks a %s, which answers any name, for what only another one lists",
    async (engine) => {
      const gateway = await aPoolOf(engine);
      await gateway.upstream.saysOfItself({
        ...wellProbes(engine),
        "0/v1/models": listing(BASE),
        "1/v1/models": listing(LORA),
      });
      await gateway.upstream.answerWith(streamThatGoesOn(["a"], HANG), wholeAnswer("b"));
      const release = await hold(gateway);
      for (let index = 0; index < 3; index++) expect((await askLora(gateway)).status).toBe(200);
      expect(await addressesOf(gateway)).toEqual([1, 1, 1]);
      release();
      await becomesIdle(gateway);
    },
  );

  test.each([
    [
      "sglang",
      {
        object: "error",
        message: "The following requested LoRA adapters are not loaded: {'sql-lora'}",
        type: "BadRequestError",
        param: null,
        code: 400,
      },
    ],
    ["trtllm", { detail: `Unknown model: ${LORA}` }],
  ] as const)(
    "goes on elsewhere where a %s says by 400 that it lacks the adapter",
    async (engine, body) => {
      const gateway = await aPoolOf(engine);
      await gateway.upstream.saysOfItself(wellProbes(engine));
      await gateway.upstream.answerWith(refusal(400, body), wholeAnswer("b"));
      for (let index = 0; index < 2; index++) expect((await askLora(gateway)).status).toBe(200);
      const [first, ...others] = await addressesOf(gateway);
      expect(others).toEqual(Array(2).fill(first === 0 ? 1 : 0));
    },
  );

  test("tells a client whose model all refuse that it is not there", async () => {
    const gateway = await aPoolOf("sglang");
    await gateway.upstream.saysOfItself(wellProbes("sglang"));
    await gateway.upstream.answerWith(NOT_FOUND);
    for (const attempts of [2, 2]) {
      const refused = await askLora(gateway);
      expect(refused.status).toBe(404);
      expect(await refused.text()).toContain("model_not_found");
      expect(await gateway.upstream.requests()).toHaveLength(attempts);
    }
    await gateway.upstream.answerWith(wholeAnswer("b"));
    expect((await gateway.ask()).status).toBe(200);
  });

  test("takes the word of the configuration, and does not ask", async () => {
    const gateway = await aPoolOf("vllm", [[BASE], [BASE, LORA]]);
    await gateway.upstream.saysOfItself({
      "/health": OK,
      "/metrics": OK,
      "/v1/models": vllmList(),
    });
    await gateway.upstream.answerWith(wholeAnswer("b"));
    for (let index = 0; index < 4; index++) expect((await askLora(gateway)).status).toBe(200);
    expect(await addressesOf(gateway)).toEqual([1, 1, 1, 1]);
    const asked = (await gateway.upstream.probed()).map(({ path }) => path);
    expect(asked).not.toContain("/v1/models");
  });
});
