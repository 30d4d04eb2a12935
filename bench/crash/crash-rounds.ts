import { setTimeout as pause } from "node:timers/promises";
import { join } from "node:path";
import * as z from "zod";
import { applyConfiguration, fetchStatus } from "../../cli/admin-client.ts";
import { keyHasher, requireConfigurationFile } from "../../cli/read-configuration.ts";
import { Child } from "../../cli/stack/child.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";
import type { Random } from "../../src/base/random.ts";
import { seededRandom } from "../../src/base/random.ts";
import { eventually } from "../../test/support/eventually.ts";
import { takeFreePorts } from "../../test/support/free-ports.ts";
import { writeLocalConfiguration } from "../../test/support/local-configuration.ts";
import { planWorkerdChild } from "../support/workerd-child.ts";
import { startQuickEngine } from "./quick-engine.ts";
import type { SeenAnswer } from "./seen-answers.ts";
import { findDisagreements, UsageLine } from "./seen-answers.ts";

export interface CrashOptions {
  readonly rounds: number;
  readonly seed: number;
  /** Whether to wait at the end until all that crashes left open is settled: up to a minute. */
  readonly awaitsSweep: boolean;
}

/** What came of it. */
export interface CrashReport {
  /** Answers whose end a client saw, and requests that were cut off. */
  readonly seen: number;
  readonly cut: number;
  readonly counted: number;
  /** Rows that were open when all was over. */
  readonly open: number;
  readonly disagreements: readonly string[];
}

const TENANT = "bulk";
const KEY = "sk-sluice-demo-bulk";
const CLIENTS = 24;
const PAGE_LINES = 1_000;
/** A life of the gateway under load, which begins once it serves. */
const LIFE_MS = { min: 500, span: 1_500 };
const SWEPT_WITHIN_MS = 90_000;

const Usage = z.object({
  requests: z.int(),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  tenant: z.object({ open_requests: z.int() }),
});
const AnswerUsage = z.object({ prompt_tokens: z.int(), completion_tokens: z.int() });

/**
 * Kills the gateway outright, again and again, while clients ask it for streams and whole answers, and
 * compares after each restart what they saw the end of with what is counted.
 */
export async function runCrashRounds(options: CrashOptions): Promise<CrashReport> {
  const random = seededRandom(options.seed);
  const [port = 0, ...replicaPorts] = await takeFreePorts(3);
  const gatewayUrl = `http://127.0.0.1:${port}`;
  const folder = createRunFolder();
  const secrets = provideSecrets({});
  const plan = await planWorkerdChild({ host: "127.0.0.1", port }, folder, secrets);
  const start = () => new Child({ ...plan, onLine: () => undefined });
  const admin = { gatewayUrl, adminKey: secrets.SLUICE_ADMIN_KEY };
  const poolUrl = `ws://127.0.0.1:${port}/internal/pools/local`;
  const engines = await Promise.all(
    replicaPorts.map((replicaPort) =>
      startQuickEngine(
        { port: replicaPort, poolUrl, secret: secrets.SLUICE_REPLICA_SECRET },
        random,
      ),
    ),
  );
  const clients = new CountingClients(gatewayUrl);
  const disagreements: string[] = [];
  const { configuration } = await requireConfigurationFile(
    join(writeLocalConfiguration(folder.path, replicaPorts)),
    { mode: "local", hashKey: keyHasher(secrets.SLUICE_KEY_PEPPER) },
  );
  let child = start();
  try {
    await eventually("the gateway serves", async () => (await fetch(`${gatewayUrl}/health`)).ok);
    await applyConfiguration(admin, configuration);
    for (let round = 0; round < options.rounds; round += 1) {
      // oxlint-disable no-await-in-loop -- a life ends before the next one begins
      await eventually("both engines are ready", async () => {
        const { pools } = await fetchStatus(admin);
        return pools.every(({ replicas }) => replicas.every(({ state }) => state === "ready"));
      });
      await clients.run(random, async () => {
        await pause(LIFE_MS.min + random() * LIFE_MS.span);
        child.kill();
        await child.exited;
      });
      child = start();
      await eventually("it serves again", async () => (await fetch(`${gatewayUrl}/health`)).ok);
      const { lines, usage } = await readLedger(gatewayUrl, admin.adminKey);
      disagreements.push(...findDisagreements(clients.seen, lines, usage));
      // oxlint-enable no-await-in-loop
    }
    if (options.awaitsSweep) {
      const isSwept = async () => (await readUsage(gatewayUrl)).tenant.open_requests === 0;
      await eventually("nothing is open", isSwept, SWEPT_WITHIN_MS);
    }
    const { lines, usage } = await readLedger(gatewayUrl, admin.adminKey);
    disagreements.push(...findDisagreements(clients.seen, lines, usage));
    return {
      seen: clients.seen.size,
      cut: clients.cut,
      counted: lines.length,
      open: usage.tenant.open_requests,
      disagreements,
    };
  } finally {
    child.kill();
    await child.exited;
    await Promise.all(engines.map((engine) => engine.close()));
    folder.remove();
  }
}

/** Clients that ask one request after the other, and remember what they saw the end of. */
class CountingClients {
  readonly seen = new Map<string, SeenAnswer>();
  cut = 0;
  readonly #url: string;

  constructor(gatewayUrl: string) {
    this.#url = `${gatewayUrl}/v1/chat/completions`;
  }

  /** Asks until `meanwhile` is done. */
  async run(random: Random, meanwhile: () => Promise<void>): Promise<void> {
    const over = new AbortController();
    const asking = Array.from({ length: CLIENTS }, async () => {
      // oxlint-disable-next-line no-await-in-loop -- each client asks one request after the other
      while (!over.signal.aborted) await this.#ask(random() < 0.5);
    });
    await meanwhile();
    over.abort();
    await Promise.all(asking);
  }

  async #ask(isStreamed: boolean): Promise<void> {
    try {
      const response = await fetch(this.#url, {
        method: "POST",
        headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
        body: JSON.stringify({
          model: "sluice-tiny",
          max_tokens: 16,
          messages: [{ role: "user", content: "Count." }],
          ...(isStreamed && { stream: true, stream_options: { include_usage: true } }),
        }),
      });
      const text = await response.text();
      if (!response.ok || (isStreamed && !text.endsWith("data: [DONE]\n\n"))) return;
      const [, json = ""] = /"usage":(\{.*?\}\}|\{[^{}]*\})/.exec(text) ?? [];
      const usage = AnswerUsage.parse(JSON.parse(json));
      this.seen.set(response.headers.get("x-request-id") ?? "", {
        promptTokens: usage.prompt_tokens,
        outputTokens: usage.completion_tokens,
      });
    } catch (error) {
      if (error instanceof z.ZodError || error instanceof SyntaxError) throw error;
      this.cut += 1;
      await pause(1);
    }
  }
}

async function readUsage(gatewayUrl: string): Promise<z.infer<typeof Usage>> {
  const headers = { authorization: `Bearer ${KEY}` };
  return Usage.parse(await (await fetch(`${gatewayUrl}/v1/usage`, { headers })).json());
}

async function readLedger(gatewayUrl: string, adminKey: string) {
  const lines: UsageLine[] = [];
  for (;;) {
    const after = lines.at(-1)?.number ?? 0;
    const url = `${gatewayUrl}/admin/v1/tenants/${TENANT}/usage?after=${after}&limit=${PAGE_LINES}`;
    // oxlint-disable-next-line no-await-in-loop -- a page begins where the one before it ends
    const page = await (
      await fetch(url, { headers: { authorization: `Bearer ${adminKey}` } })
    ).text();
    if (page === "") break;
    for (const line of page.trimEnd().split("\n")) lines.push(UsageLine.parse(JSON.parse(line)));
  }
  return { lines, usage: await readUsage(gatewayUrl) };
}
