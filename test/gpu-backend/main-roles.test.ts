import { createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import { PrefillAnswer } from "../../src/protocol/prefill-answer.ts";
import { type EngineProgram, spawnEngine } from "../support/engine-program.ts";
import { eventually } from "../support/eventually.ts";
import { takeAdjacentPorts } from "../support/free-ports.ts";
import { readText } from "../support/running-engine.ts";

const START_MS_MAX = 120_000;
const SECRET = "a-secret-of-these-tests";
const PROMPT = "One day a bear named Ben went to the market with his friend Tom. ".repeat(40);
const FLAGS = ["--roles", "prefill,decode", "--kv-blocks", "256"];

let program: EngineProgram | undefined;
afterEach(async () => {
  program?.child.kill("SIGKILL");
  await program?.ended;
});

async function complete(port: number, headers: Record<string, string>) {
  return fetch(`http://127.0.0.1:${port}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${SECRET}`, "x-gw-cache-salt": "salt", ...headers },
    body: JSON.stringify({ model: "sluice-tiny", prompt: PROMPT, max_tokens: 8, temperature: 0 }),
  });
}

/** Starts both, and returns the ports on which they serve. */
async function start(...preloads: readonly URL[]): Promise<readonly [number, number]> {
  const [first, second] = await takeAdjacentPorts();
  const started = spawnEngine([...FLAGS, "--port", `${first}`], SECRET, ...preloads);
  program = started;
  await eventually(
    `both are ready (it said: ${started.errorText()})`,
    () => started.log.filter(({ event }) => event === "ready").length === 2,
    START_MS_MAX,
  );
  return [first, second];
}

test(
  "with --roles one program is an engine a role, which have KV of each other, and end together",
  async () => {
    const [prefiller, decoder] = await start();
    const ready = program?.log.filter(({ event }) => event === "ready");
    expect(new Set(ready?.map(({ port, url }) => `${String(port)} ${String(url)}`))).toEqual(
      new Set([
        `${prefiller} http://127.0.0.1:${prefiller}`,
        `${decoder} http://127.0.0.1:${decoder}`,
      ]),
    );
    const prefilled = await complete(prefiller, { "x-gw-prefill-only": "1" });
    const { held_tokens: heldTokens } = PrefillAnswer.parse(await prefilled.json());
    expect(heldTokens).toBeGreaterThan(500);
    const peer = { "x-gw-kv-peer": `http://127.0.0.1:${prefiller}` };
    const { usage } = await readText(await complete(decoder, peer));
    expect(usage?.prompt_tokens_details?.cached_tokens).toBe(heldTokens);
    program?.child.kill("SIGTERM");
    expect(await program?.ended).toBe(0);
    expect(program?.log.filter(({ event }) => event === "stopped")).toHaveLength(1);
  },
  START_MS_MAX,
);

test(
  "one that breaks takes the others along, with what it is",
  async () => {
    await start(new URL("../support/end-engine-thread.mjs", import.meta.url));
    program?.child.kill("SIGUSR2");
    expect(await program?.ended).toBe(1);
    expect(program?.log).toContainEqual(
      expect.objectContaining({
        event: "engine-broken",
        reason: "The engine thread ended with code 1",
        url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      }),
    );
  },
  START_MS_MAX,
);

test(
  "where one cannot start, none does",
  async () => {
    const [first, second] = await takeAdjacentPorts();
    const squatter = createServer().listen(second, "127.0.0.1");
    program = spawnEngine([...FLAGS, "--port", `${first}`], SECRET);
    expect(await program.ended).toBe(1);
    squatter.close();
    expect(program.log.at(-1)).toMatchObject({
      event: "start-failed",
      message: `Port ${second} on 127.0.0.1 is taken: choose another one with --port`,
    });
  },
  START_MS_MAX,
);

test("roles that could not work are told, with exit code 2", async () => {
  program = spawnEngine(["--roles", "decode,decode"], SECRET);
  expect(await program.ended).toBe(2);
  expect(program.errorText()).toBe(
    "--roles: has nobody compute prompts: expected prefill or mixed\n",
  );
});
