import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { runRecorded } from "../cli/support/recorded-terminal.ts";
import type { ListeningServer } from "../support/listen-on-loopback.ts";
import { listenOnLoopback } from "../support/listen-on-loopback.ts";
import type { BareGateway } from "./support/miniflare-gateway.ts";
import { startBareGateway } from "./support/miniflare-gateway.ts";

const ANSWER_MS = 150;
const chunk = (content: string, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "tiny", choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`;

let gateway: BareGateway;
let server: ListeningServer;
beforeAll(async () => {
  gateway = await startBareGateway("production");
  // A server that is not ours, and takes its time to answer.
  const slow = createServer((request, response) => {
    request.resume();
    if (request.url !== "/v1/chat/completions") {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(chunk("Once"));
    setTimeout(() => response.end(`${chunk(" upon", "stop")}data: [DONE]\n\n`), ANSWER_MS);
  });
  server = await listenOnLoopback(slow);
});
afterEach(() => vi.unstubAllEnvs());
afterAll(async () => {
  await server.close();
  await gateway.dispose();
});

async function sluice(...words: string[]): Promise<string> {
  vi.stubEnv("SLUICE_ADMIN_KEY", gateway.secrets.SLUICE_ADMIN_KEY);
  vi.stubEnv("SLUICE_KEY_PEPPER", gateway.secrets.SLUICE_KEY_PEPPER);
  const { exitCode, stdout, stderr } = await runRecorded(...words, "--url", gateway.gatewayUrl);
  expect({ words, exitCode, stderr }).toMatchObject({ exitCode: 0, stderr: "" });
  return stdout;
}

const issuedKey = (text: string): string => {
  const { apiKey }: { apiKey: string } = JSON.parse(text);
  return apiKey;
};

/** Clients that ask one thing after another, and what came of it: `whole`, a code, or how it broke. */
class Load {
  readonly outcomes: { readonly key: string; readonly outcome: string }[] = [];
  #isOver = false;
  readonly #clients: Promise<void>[] = [];

  start(count: number, keyNow: () => string): void {
    this.#clients.push(...Array.from({ length: count }, () => this.#askOn(keyNow)));
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }

  /** Waits until so many more answers are there, and returns their outcomes. */
  async next(count: number): Promise<string[]> {
    const from = this.outcomes.length;
    await vi.waitUntil(() => this.outcomes.length >= from + count, { timeout: 30_000 });
    return this.outcomes.slice(from).map(({ outcome }) => outcome);
  }

  async #askOn(keyNow: () => string): Promise<void> {
    while (!this.#isOver) {
      const key = keyNow();
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      const outcome = await this.#ask(key).catch(String);
      this.outcomes.push({ key, outcome });
      // oxlint-disable-next-line no-await-in-loop -- who is refused does not hammer
      if (outcome !== "whole") await sleep(50);
    }
  }

  async #ask(key: string): Promise<string> {
    const messages = [{ role: "user", content: "Tell me a story." }];
    const response = await fetch(`${gateway.gatewayUrl}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "tiny", stream: true, max_tokens: 8, messages }),
    });
    const text = await response.text();
    if (response.status !== 200) {
      const { error }: { error: { code: string } } = JSON.parse(text);
      return error.code;
    }
    return text.includes(" upon") && text.trimEnd().endsWith("[DONE]") ? "whole" : text;
  }
}

test("under load a tenant comes, its key is rotated, its limit lowered and all of it rolled back: no request is lost", async () => {
  vi.stubEnv("SLUICE_KEY_PEPPER", gateway.secrets.SLUICE_KEY_PEPPER);
  const made: { key: string; hash: string } = JSON.parse(
    (await runRecorded("hash-key", "--json")).stdout,
  );
  const file = join(gateway.folder, "sluice.yaml");
  writeFileSync(
    file,
    `models: { tiny: { context: 2048, pool: gpus } }
pools: { gpus: { engine: openai, replicas: [{ url: "${server.url}" }] } }
tenants: { acme: { keys: [{ name: prod, hash: "${made.hash}" }], models: [tiny], class: bulk } }
`,
  );
  await sluice("apply", file);
  const acme = new Load();
  const globex = new Load();
  acme.start(2, () => made.key);
  await acme.next(4);

  await sluice("tenants", "add", "globex", "--models=tiny", "--class=bulk", "--concurrency=8");
  const first = issuedKey(await sluice("keys", "create", "globex", "app", "--json"));
  let current = first;
  globex.start(3, () => current);
  await globex.next(6);

  const rotated = await sluice("keys", "rotate", "globex", "app", "--overlap=1h", "--json");
  globex.start(1, () => first);
  current = issuedKey(rotated);
  await globex.next(12);
  expect(new Set(globex.outcomes.map(({ key }) => key))).toEqual(new Set([first, current]));
  expect(new Set(globex.outcomes.map(({ outcome }) => outcome))).toEqual(new Set(["whole"]));

  await sluice("tenants", "change", "globex", "--concurrency=1");
  await vi.waitUntil(async () => (await globex.next(4)).includes("rate_limit_exceeded"), 20_000);
  await sluice("rollback", "2", "--yes");
  await vi.waitUntil(async () => !(await globex.next(12)).includes("rate_limit_exceeded"), 20_000);
  await Promise.all([acme.end(), globex.end()]);

  expect(new Set(acme.outcomes.map(({ outcome }) => outcome))).toEqual(new Set(["whole"]));
  expect(new Set(globex.outcomes.map(({ outcome }) => outcome))).toEqual(
    new Set(["whole", "rate_limit_exceeded"]),
  );
}, 120_000);
