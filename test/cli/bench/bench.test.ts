import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { LoadResult } from "../../../cli/bench/load-result.ts";
import { eventually } from "../../support/eventually.ts";
import { listenOnLoopback } from "../../support/listen-on-loopback.ts";
import { runRecorded } from "../support/recorded-terminal.ts";
import type { PacedAnswer, PacedServer } from "./paced-server.ts";
import { countTokens, event, startPacedServer, token } from "./paced-server.ts";

const DONE = "data: [DONE]\n\n";
const QUICK: PacedAnswer = { kind: "stream", ttftMs: 30, gapMs: 5 };

let server: PacedServer | undefined;
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server?.close();
  server = undefined;
  rmSync(folder, { recursive: true, force: true });
});

async function start(answerTo: Parameters<typeof startPacedServer>[0], modelId?: string) {
  server = await startPacedServer(answerTo, modelId);
  return server.url;
}

const HALF_A_SECOND =
  "--duration 500ms --warm-up 0s --json --prompt-tokens 107 --output-tokens 4".split(" ");

/** Half a second at the rate that is given, without warm-up. */
async function bench(url: string, ...flags: string[]): Promise<LoadResult> {
  const run = await runRecorded("bench", url, ...HALF_A_SECOND, ...flags);
  expect(run.stderr).toBe("");
  return LoadResult.parse(JSON.parse(run.stdout));
}

describe("sluice bench", () => {
  test("measures a server over HTTP: its latencies, its token counts, its model", async () => {
    const url = await start(() => QUICK);
    const result = await bench(url, "--rate", "40", "--burstiness", "inf");
    expect(result.model_id).toBe("stand-in");
    expect(result.completed).toBe(20);
    const [tenant] = result.tenants;
    // Timers of Node may be a millisecond early; how late they are is the machine's affair.
    expect(tenant?.ttft_ms.p50).toBeGreaterThan(28);
    expect(tenant?.tpot_ms.p50).toBeGreaterThan(4);
    expect((tenant?.e2el_ms.p50 ?? 0) - (tenant?.ttft_ms.p50 ?? 0)).toBeGreaterThan(12);
    // Two answers told it what a word costs, so that prompts are as long as was asked for.
    expect(result.prompt_tokens_measured).toBe(true);
    expect(countTokens(server?.asked.at(-1)?.words ?? 0)).toBe(107);
    expect(result["total_input_tokens"]).toBe(20 * 107);
    expect(result["total_output_tokens"]).toBe(20 * 4);
  });

  test("sends each tenant's key and class, and no key into its result", async () => {
    vi.stubEnv("CHAT_KEY", "sk-of-chat");
    vi.stubEnv("BULK_KEY", "sk-of-bulk");
    const mix = join(folder, "mix.yaml");
    writeFileSync(
      mix,
      `tenants:
  chat: { key_env: CHAT_KEY, weight: 3, class: interactive, goodput: "ttft:5000" }
  bulk: { key_env: BULK_KEY, output_tokens: 2 }\n`,
    );
    const url = await start(() => QUICK);
    const result = await bench(url, "--rate", "40", "--burstiness", "inf", "--mix", mix);
    expect(result.tenants.map(({ name, offered }) => [name, offered])).toEqual([
      ["chat", 15],
      ["bulk", 5],
    ]);
    const ofBulk = server?.asked.filter(
      ({ authorization }) => authorization === "Bearer sk-of-bulk",
    );
    expect(ofBulk?.length).toBe(5);
    expect(ofBulk?.every(({ maxTokens, className }) => maxTokens === 2 && !className)).toBe(true);
    const ofChat = server?.asked.filter(({ className }) => className === "interactive");
    expect(ofChat?.every(({ authorization }) => authorization === "Bearer sk-of-chat")).toBe(true);
    expect(JSON.stringify(result)).not.toContain("sk-of");
  });

  test.each<[string, PacedAnswer, Partial<LoadResult["tenants"][0]>]>([
    [
      "a refusal by its status",
      { kind: "status", status: 429, body: '{"error":{"code":"rate_limit_exceeded"}}' },
      { rejected: 4, failed: 0, rejected_by_status: { "429": 4 } },
    ],
    [
      "a refusal inside a stream that had not begun",
      {
        kind: "pieces",
        pieces: [": wait\n\n", event({ error: { code: "server_is_overloaded" } })],
        breaks: false,
      },
      { rejected: 4, failed: 0, rejected_by_status: { "503": 4 } },
    ],
    [
      "an error behind the first token",
      {
        kind: "pieces",
        pieces: [token("a"), event({ error: { code: "server_is_overloaded" } }), DONE],
        breaks: false,
      },
      {
        rejected: 0,
        failed: 4,
        failures: { "an error inside the stream: server_is_overloaded": 4 },
      },
    ],
    [
      "an answer without an end",
      { kind: "pieces", pieces: [token("a")], breaks: false },
      { failed: 4 },
    ],
    [
      "a connection that breaks",
      { kind: "pieces", pieces: [token("a")], breaks: true },
      { failed: 4 },
    ],
    ["an answer of nothing", { kind: "pieces", pieces: [DONE], breaks: false }, { failed: 4 }],
    [
      "a server's own failure",
      { kind: "status", status: 500, body: "oops" },
      { failed: 4, failures: { "500 Internal Server Error": 4 } },
    ],
    [
      "an error with a code",
      { kind: "status", status: 400, body: '{"error":{"code":"context_length_exceeded"}}' },
      { failed: 4, failures: { "400 context_length_exceeded": 4 } },
    ],
    [
      "an error as vLLM has it",
      { kind: "status", status: 404, body: '{"error":{"code":404,"type":"NotFoundError"}}' },
      { failed: 4, failures: { "404 NotFoundError": 4 } },
    ],
    ["silence", { kind: "silence" }, { failed: 4 }],
  ])("counts %s as what it is", async (_name, answer, expected) => {
    const url = await start((asked) => (asked.maxTokens === 1 ? QUICK : answer));
    const flags = [
      "--rate",
      "8",
      "--burstiness",
      "inf",
      "--timeout",
      "2s",
      "--goodput",
      "ttft:500",
    ];
    const result = await bench(url, ...flags);
    expect(result.tenants[0]).toMatchObject({ offered: 4, completed: 0, good: 0, ...expected });
    expect(result.attainment_offered).toBe(0);
  });

  test("takes goals as vLLM does, writes a page that needs nothing else, and escapes names", async () => {
    const url = await start(() => QUICK, "<script>alert(1)</script>");
    const page = join(folder, "report.html");
    const flags = ["--rate", "10", "--html", page, "--goodput", "ttft:9000", "tpot:9000"];
    const result = await bench(url, ...flags);
    expect(result.tenants[0]?.goodput).toBe("ttft:9000 tpot:9000");
    expect(result.tenants[0]?.attainment_offered).toBe(1);
    const html = readFileSync(page, "utf8");
    expect(html).toContain("<svg");
    expect(html).not.toContain("<script");
    expect(html).not.toMatch(/(?:src|href)=|url\(|@import/);
  });

  test("compares two results on file", async () => {
    const files = ["a.json", "b.json"].map((name) => join(folder, name));
    const url = await start(() => QUICK);
    for (const file of files) await bench(url, "--rate", "20", "--out", file);
    // A result of before failures were counted by reason.
    const [old = ""] = files;
    writeFileSync(old, readFileSync(old, "utf8").replaceAll('"failures":{},', ""));
    const { exitCode, stdout } = await runRecorded("bench", "compare", ...files);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/TTFT p99, ms .* too few to tell/);
    expect(stdout).toContain("an interval takes 20 requests");
    expect(stdout).toMatch(/good of offered, % +- +- +- +-/);
    expect(stdout).not.toContain("differs");
    const broken = join(folder, "broken.json");
    writeFileSync(broken, "{}");
    expect((await runRecorded("bench", "compare", files[0] ?? "", broken)).stderr).toContain(
      "is no result of sluice bench",
    );
  });

  test.each([
    [["http://127.0.0.1:1", "--rate", "0"], "Expected requests a second"],
    [
      ["http://127.0.0.1:1", "--duration", "5s", "--warm-up", "5s"],
      "Expected less than --duration",
    ],
    [["http://127.0.0.1:1", "--timeout", "0s"], "--timeout: Expected a duration above 0s"],
    [["http://127.0.0.1:1", "--timeout", "1000h"], "--timeout: Expected a duration above 0s"],
    [["http://127.0.0.1:1", "--duration", "0s"], "--duration: Expected a duration above 0s"],
    [["http://127.0.0.1:1", "--rate", "100000", "--duration", "1h"], "at most 500000 requests"],
    [["http://127.0.0.1:1", "--sweep", "1..10"], "Expected goals to keep"],
    [["http://127.0.0.1:1", "--goodput", "speed:3"], "Expected goals such as"],
    [["http://127.0.0.1:1", "--prompt-tokens", "9..3"], "Expected tokens such as"],
    [["http://127.0.0.1:1", "--speed", "2"], "--speed: Expected with --trace"],
    [["http://127.0.0.1:1", "--sweep-target", "0.99"], "--sweep-target: Expected with --sweep"],
    [["http://127.0.0.1:1", "--save-detailed"], "--save-detailed: Expected with --out or --json"],
    ...["burstiness", "prompt-tokens", "output-tokens"].map((flag): [string[], string] => [
      ["http://127.0.0.1:1", "--trace", "none.csv", `--${flag}`, "1"],
      `--${flag}: Expected without --trace`,
    ]),
    [["ftp://127.0.0.1"], "Expected a URL"],
    [[], "Expected the URL"],
  ])("refuses %j", async (words, complaint) => {
    const { exitCode, stderr } = await runRecorded("bench", ...words);
    expect(stderr).toContain(complaint);
    expect(exitCode).toBe(2);
  });

  test.each<[string, string[], PacedAnswer, string]>([
    [
      "a class that the tenant lacks",
      [],
      {
        kind: "status",
        status: 400,
        body: '{"error":{"code":"invalid_value","message":"No class \\u001b[2Jgold"}}',
      },
      "The server refuses the requests of tenant default: 400 invalid_value: No class [2Jgold\n",
    ],
    [
      "a model that nobody serves",
      ["--model", "nope"],
      {
        kind: "status",
        status: 404,
        body: '{"error":{"code":"model_not_found","message":"No nope"}}',
      },
      "The server refuses the requests of tenant default: 404 model_not_found: No nope\n",
    ],
    [
      "a wrong key, without telling it",
      ["--token-env", "WRONG_KEY"],
      {
        kind: "status",
        status: 401,
        body: '{"error":{"code":"invalid_api_key","message":"Wrong: sk-wrong"}}',
      },
      "401 invalid_api_key: Wrong: … (--token-env NAME, or key_env in a mix, names the env",
    ],
    [
      "a wrong key that is told where a long message is cut",
      ["--token-env", "WRONG_KEY"],
      {
        kind: "status",
        status: 401,
        body: `{"error":{"code":"invalid_api_key","message":"${"!".repeat(196)}sk-wrong"}}`,
      },
      "!… (--token-env NAME",
    ],
    [
      "an inner failure",
      [],
      { kind: "status", status: 500, body: "oops" },
      "The server fails at the requests of tenant default: 500 Internal Server Error\n",
    ],
    [
      "half an answer",
      [],
      { kind: "pieces", pieces: [token("a")], breaks: false },
      "The server gives the requests of tenant default no whole answer: the stream ended",
    ],
  ])("begins no load that meets %s, and says so", async (_, flags, answer, complaint) => {
    vi.stubEnv("WRONG_KEY", "sk-wrong");
    const { exitCode, stderr } = await runRecorded("bench", await start(() => answer), ...flags);
    expect(`${stderr}\n`).toContain(complaint);
    expect(exitCode).toBe(1);
  });

  test.each([["--out"], ["--html"]])("asks nothing where %s cannot be written", async (flag) => {
    const url = await start(() => QUICK);
    const { exitCode, stderr } = await runRecorded("bench", url, flag, join(folder, "no", "f"));
    expect(stderr).toContain("no such file");
    expect(exitCode).toBe(1);
    expect(server?.asked).toEqual([]);
  });

  test("hints at how a key is given where a server wants one", async () => {
    vi.stubEnv("WRONG_KEY", "sk-wrong");
    const locked = createServer((_, response) => response.writeHead(401).end());
    const { url, close } = await listenOnLoopback(locked);
    try {
      const without = await runRecorded("bench", url);
      expect(without.stderr).toContain("asks for a key (status 401): --token-env NAME");
      const wrong = await runRecorded("bench", url, "--token-env", "WRONG_KEY");
      expect(wrong.stderr).toContain("refuses the key (status 401): is it the right one?");
      expect([without.exitCode, wrong.exitCode]).toEqual([1, 1]);
    } finally {
      await close();
    }
  });

  test("warms up for half of a short load where nothing is said of it", async () => {
    const url = await start(() => QUICK);
    const words = ["--duration", "500ms", "--rate", "20", "--burstiness", "inf", "--json"];
    const { stdout, stderr } = await runRecorded("bench", url, ...words, "--output-tokens", "2");
    expect(stderr).toBe("");
    const result = LoadResult.parse(JSON.parse(stdout));
    expect([result["warm_up"], result.offered]).toEqual([0.25, 5]);
  });

  test("says which server does not answer", async () => {
    const { exitCode, stderr } = await runRecorded("bench", "http://127.0.0.1:1");
    expect(exitCode).toBe(1);
    expect(stderr).toContain("http://127.0.0.1:1");
  });

  test("ends at Ctrl-C with what there is", async () => {
    const url = await start(() => ({ kind: "stream", ttftMs: 10, gapMs: 5 }));
    const sluice = resolve(import.meta.dirname, "../../../cli/sluice.mjs");
    const words = ["bench", url, "--rate", "20", "--duration", "10m", "--warm-up", "0s", "--json"];
    // One at a time, so that whoever asks again has had an answer.
    words.push("--output-tokens", "4", "--max-concurrency", "1");
    const child = spawn(process.execPath, [sluice, ...words], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => (stdout += piece));
    const closed = once(child, "close");
    try {
      await eventually("a dozen requests", () => (server?.asked.length ?? 0) > 12);
    } finally {
      child.kill("SIGINT");
    }
    expect(await closed).toEqual([1, null]);
    const result = LoadResult.parse(JSON.parse(stdout));
    expect(result.interrupted).toBe(true);
    expect(result.completed).toBeGreaterThan(0);
    expect(result.tenants[0]?.failed).toBe(0);
  });
});
