import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import type { Random } from "../../src/base/random.ts";
import { ENGINE_HEADERS } from "../../src/protocol/headers.ts";
import { PrefillAnswer } from "../../src/protocol/prefill-answer.ts";
import { somePrompt } from "./workload.ts";

/** Requests of one kind that come at a rate, whether or not those before have ended. */
export interface LoadPart {
  readonly perSecond: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** Two engines, and which of them are to compute prompts for the others. */
export interface Hardware {
  readonly urls: readonly string[];
  /** Absent: every engine does both. */
  readonly prefillUrl?: string;
}

/** What one request had. */
export interface Served {
  readonly part: LoadPart;
  /** `undefined`: no token came in time. */
  readonly ttftMs: number | undefined;
  readonly gapsMs: readonly number[];
  readonly isComplete: boolean;
}

export const SPLIT_SECRET = "a-secret-of-this-benchmark";
/** Shorter ones are computed where they are decoded. */
const SPLIT_TOKENS_MIN = 128;
/** Behind the window, until whatever is still open counts as failed. */
const PATIENCE_MS = 4_000;

/** Sends a load for a while, open loop, and says what each of its requests had. */
export async function sendLoad(
  hardware: Hardware,
  parts: readonly LoadPart[],
  window: { readonly ms: number; readonly random: Random; readonly firstSeed: number },
): Promise<readonly Served[]> {
  const arrivals = arrivalsOf(parts, window);
  const router = new Router(hardware);
  const startedAtMs = performance.now();
  const abort = new AbortController();
  const served = await Promise.all(
    arrivals.map(async ({ atMs, part }, index) => {
      await sleep(Math.max(0, startedAtMs + atMs - performance.now()));
      const leftMs = startedAtMs + window.ms + PATIENCE_MS - performance.now();
      const signal = AbortSignal.any([
        abort.signal,
        AbortSignal.timeout(Math.ceil(Math.max(1, leftMs))),
      ]);
      return router.serve(part, somePrompt(part.promptTokens, window.firstSeed + index), signal);
    }),
  );
  abort.abort();
  return served;
}

function arrivalsOf(
  parts: readonly LoadPart[],
  { ms, random }: { readonly ms: number; readonly random: Random },
): readonly { readonly atMs: number; readonly part: LoadPart }[] {
  return parts
    .flatMap((part) => {
      const arrivals: { readonly atMs: number; readonly part: LoadPart }[] = [];
      const gapMs = () => (-Math.log(1 - random()) * 1000) / part.perSecond;
      for (let atMs = gapMs(); atMs < ms; atMs += gapMs()) arrivals.push({ atMs, part });
      return arrivals;
    })
    .toSorted((a, b) => a.atMs - b.atMs);
}

/** Sends each request where fewest are open, a long prompt first to who prefills. */
class Router {
  readonly #hardware: Hardware;
  readonly #open: Map<string, number>;

  constructor(hardware: Hardware) {
    this.#hardware = hardware;
    const { urls, prefillUrl } = hardware;
    this.#open = new Map(urls.filter((url) => url !== prefillUrl).map((url) => [url, 0]));
  }

  async serve(part: LoadPart, prompt: readonly number[], signal: AbortSignal): Promise<Served> {
    const arrivedAtMs = performance.now();
    const tokensAtMs: number[] = [];
    const body = {
      model: "sluice-tiny",
      prompt,
      max_tokens: part.outputTokens,
      temperature: 0,
      ignore_eos: true,
    };
    let isComplete = false;
    try {
      const headers = await this.#prefilled(body, signal);
      const [url = ""] = [...this.#open].toSorted(([, a], [, b]) => a - b)[0] ?? [];
      this.#open.set(url, (this.#open.get(url) ?? 0) + 1);
      try {
        const stream = await post(url, { ...body, stream: true }, { headers, signal });
        for await (const chunk of stream.body ?? []) {
          const text = Buffer.from(chunk).toString();
          isComplete ||= text.includes("data: [DONE]");
          if (text.includes('"text":')) tokensAtMs.push(performance.now());
        }
      } finally {
        this.#open.set(url, (this.#open.get(url) ?? 1) - 1);
      }
    } catch {
      // What came until then counts, and that it is not complete.
    }
    const [first] = tokensAtMs;
    return {
      part,
      ttftMs: first === undefined ? undefined : first - arrivedAtMs,
      gapsMs: tokensAtMs.slice(1).map((atMs, index) => atMs - (tokensAtMs[index] ?? atMs)),
      isComplete,
    };
  }

  /** Has a long prompt computed where that is somebody's role. */
  async #prefilled(
    body: { readonly prompt: readonly number[] },
    signal: AbortSignal,
  ): Promise<Record<string, string>> {
    const { prefillUrl } = this.#hardware;
    if (prefillUrl === undefined || body.prompt.length < SPLIT_TOKENS_MIN) return {};
    const headers = { [ENGINE_HEADERS.prefillOnly]: "1" };
    const answer = await post(prefillUrl, body, { headers, signal });
    PrefillAnswer.extend({ held_tokens: z.int().min(1) }).parse(await answer.json());
    return { [ENGINE_HEADERS.kvPeer]: prefillUrl };
  }
}

async function post(
  url: string,
  body: object,
  { headers, signal }: { headers: Record<string, string>; signal: AbortSignal },
): Promise<Response> {
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${SPLIT_SECRET}`, ...headers },
    body: JSON.stringify(body),
    signal,
  });
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  return response;
}
