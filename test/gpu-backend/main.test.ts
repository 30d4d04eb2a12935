import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { isPortTaken } from "../../cli/stack/engine-child.ts";
import { type EngineProgram, spawnEngine } from "../support/engine-program.ts";
import { eventually } from "../support/eventually.ts";
import { type FakePool, startFakePool } from "../support/fake-pool.ts";
import { LONG_TASK, readCompletion, readProblem, readStream } from "../support/running-engine.ts";

const START_MS_MAX = 90_000;
const SECRET = "a-secret-of-these-tests";
/** What runs goes on at SIGCONT: until then it cannot end before the test has done what it came for. */
const HELD = new URL("../support/hold-engine.mjs", import.meta.url);

let program: EngineProgram | undefined;
let pool: FakePool | undefined;
afterEach(async () => {
  program?.child.kill("SIGKILL");
  await program?.ended;
  await pool?.close();
});

function chat(url: string, body: object): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${SECRET}` },
    body: JSON.stringify({ model: "sluice-tiny", ...LONG_TASK, ...body }),
  });
}

test(
  "SIGTERM drains: the pool hears of it, what runs finishes, what is new is refused, exit 0",
  async () => {
    pool = await startFakePool();
    const flags = ["--port", "0", "--kv-blocks", "256", "--drain-ms", "60000", "--runtime", "wasm"];
    program = spawnEngine([...flags, "--pool-url", pool.url], SECRET, HELD);
    const url = await program.ready();
    expect(program.log).toContainEqual(
      expect.objectContaining({
        level: "info",
        event: "ready",
        model: "sluice-tiny",
        parameters: 5401856,
        precision: "int8",
        runtime: "own kernels (wasm)",
        kvBlocks: 256,
        readyMs: expect.any(Number),
      }),
    );
    const running = await chat(url, { stream: true });
    await eventually("it dials in", () => pool?.connections.length === 1);
    const frames = pool.connections[0]?.frames ?? [];
    await eventually("the pool hears that a request runs", () => {
      return frames.some((frame) => frame.kind === "report" && frame.runningRequests === 1);
    });
    expect(frames[0]).toMatchObject({ kind: "hello", endpointUrl: url });

    program.child.kill("SIGTERM");
    await eventually("the pool hears of the drain", () => {
      return frames.some((frame) => frame.kind === "report" && frame.draining);
    });
    expect(await readProblem(await chat(url, {}))).toMatchObject({
      status: 503,
      code: "server_is_overloaded",
    });
    expect((await fetch(`${url}/health`)).status).toBe(503);
    program.child.kill("SIGCONT");
    const answer = await readStream(running);
    expect(answer.finishReasons).toEqual(["stop"]);
    expect(answer.lastData).toBe("[DONE]");
    expect(await program.ended).toBe(0);
    expect(JSON.stringify(program.log)).not.toMatch(/fox|Lily|a-secret/);
  },
  START_MS_MAX,
);

test(
  "what still runs when the time to drain is over ends with an error, and the exit is still 0",
  async () => {
    program = spawnEngine(["--port", "0", "--kv-blocks", "256", "--drain-ms", "0"], SECRET, HELD);
    const running = await chat(await program.ready(), { stream: true });
    program.child.kill("SIGINT");
    const answer = await readStream(running);
    expect(answer.finishReasons).toEqual([]);
    const message = "The model server was stopped before the answer was complete";
    expect(JSON.parse(answer.lastData)).toMatchObject({
      error: { code: "upstream_error", message },
    });
    expect(await program.ended).toBe(0);
  },
  START_MS_MAX,
);

test(
  "a second signal does not wait for what runs",
  async () => {
    program = spawnEngine(["--port", "0", "--kv-blocks", "256"], SECRET, HELD);
    const running = await chat(await program.ready(), { stream: true });
    program.child.kill("SIGTERM");
    await eventually("it drains", () => program?.log.at(-1)?.["event"] === "draining");
    program.child.kill("SIGTERM");
    const answer = await readStream(running);
    expect(answer.finishReasons).toEqual([]);
    expect(JSON.parse(answer.lastData)).toMatchObject({ error: { code: "upstream_error" } });
    expect(await program.ended).toBe(1);
  },
  START_MS_MAX,
);

test(
  "an engine whose thread breaks down fails what is open, says why, and exits with 1",
  async () => {
    const ending = new URL("../support/end-engine-thread.mjs", import.meta.url);
    program = spawnEngine(["--port", "0", "--kv-blocks", "256"], SECRET, HELD, ending);
    const running = await chat(await program.ready(), { stream: true });
    program.child.kill("SIGUSR2");
    const answer = await readStream(running);
    expect(answer.finishReasons).toEqual([]);
    expect(JSON.parse(answer.lastData)).toMatchObject({ error: { code: "upstream_error" } });
    expect(await program.ended).toBe(1);
    const reason = "The engine thread ended with code 1";
    expect(program.log).toContainEqual(expect.objectContaining({ event: "engine-broken", reason }));
  },
  START_MS_MAX,
);

test(
  "with --exit-with-stdin the end of its input ends it, ready or not",
  async () => {
    program = spawnEngine(["--port", "0", "--exit-with-stdin"]);
    program.child.stdin?.end();
    expect(await program.ended).toBe(0);
    program = spawnEngine(["--port", "0", "--kv-blocks", "256", "--exit-with-stdin"]);
    await program.ready();
    program.child.stdin?.destroy();
    expect(await program.ended).toBe(0);
    expect(program.log.at(-1)).toMatchObject({ event: "stopped" });
  },
  START_MS_MAX,
);

test(
  "an engine that nobody has compiled runs as it is written, with all of its threads",
  async () => {
    vi.stubEnv("SLUICE_ENGINE_BUILD", undefined);
    program = spawnEngine(["--port", "0", "--kv-blocks", "256"], SECRET);
    const answer = await readCompletion(
      await chat(await program.ready(), {
        // Long enough for the thread that reads prompts, and constrained by one that has the grammar.
        messages: [{ role: "user", content: "Tell me. ".repeat(250) }],
        response_format: { type: "json_schema", json_schema: { name: "a", schema: { const: 7 } } },
      }),
    );
    expect(answer.choices[0]?.message.content).toBe("7");
  },
  START_MS_MAX,
);

test(
  "a port that is taken is named, with the flag that changes it",
  async () => {
    const squatter = createServer().listen(0, "127.0.0.1");
    await once(squatter, "listening");
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a server that listens on TCP
    const { port } = squatter.address() as AddressInfo;
    program = spawnEngine(["--port", String(port)]);
    expect(await program.ended).toBe(1);
    squatter.close();
    expect(program.log).toMatchObject([
      {
        event: "start-failed",
        message: `Port ${port} on 127.0.0.1 is taken: choose another one with --port`,
      },
    ]);
    // The command line tells this line from others by its words.
    expect(isPortTaken(JSON.stringify(program.log[0]))).toBe(true);
  },
  START_MS_MAX,
);

test(
  "a directory without a model is named",
  async () => {
    program = spawnEngine(["--port", "0", "--model", "/nonexistent"]);
    expect(await program.ended).toBe(1);
    expect(program.log[0]?.["message"]).toMatch(/^Cannot read \/nonexistent\/\w+\.json: ENOENT/);
  },
  START_MS_MAX,
);

test("wrong flags are all told, with exit code 2", async () => {
  program = spawnEngine(["--port", "x", "--hots", "y"]);
  expect(await program.ended).toBe(2);
  expect(program.errorText()).toContain('--port: expected an integer from 0 to 65535, found "x"');
  expect(program.errorText()).toContain("--hots: there is no such flag");
});

test("--help goes to standard output, with exit code 0", async () => {
  program = spawnEngine(["--help"]);
  let text = "";
  program.child.stdout?.on("data", (chunk: string) => (text += chunk));
  expect(await program.ended).toBe(0);
  expect(text).toContain("--exit-with-stdin");
});
