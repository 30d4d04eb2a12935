import { randomBytes } from "node:crypto";
import { ENGINE_HEADERS } from "../../src/protocol/headers.ts";
import { parseChain, type PromptChain } from "../../src/protocol/prompt-chain.ts";
import { type DispatchMark, parseDispatchMark } from "../engine/dispatch-tracker.ts";
import type { KvPeer } from "../engine/kv-cache/kv-tier.ts";
import { ProblemError } from "./problem-error.ts";

/** What the gateway says about a request, beside the client's own body. */
export interface EngineHeaders {
  readonly cacheSalt: string | undefined;
  readonly promptChain: PromptChain | undefined;
  readonly firstTokenBudgetMs: number | undefined;
  readonly tbtTargetMs: number | undefined;
  readonly tenant: string | undefined;
  readonly priority: number | undefined;
  readonly dispatch: DispatchMark | undefined;
  readonly kvPeer: KvPeer | undefined;
  /** True: only the KV of the prompt is wanted. */
  readonly prefillOnly: true | undefined;
  /** True: a stream is to say which tokens its chunks are from. */
  readonly tellsTokens: true | undefined;
}

const REQUEST_ID = /^[\w.-]{1,64}$/;
const URL_CHARACTERS_MAX = 512;
const PRIORITY = /^-?\d{1,9}$/;
const OPAQUE_NAME = /^[\x21-\x7e]{1,128}$/;
const DURATION_MS = /^\d{1,12}(\.\d{1,6})?$/;

/**
 * Reads the gateway's headers. One that is there and makes no sense is 400, because to ignore a
 * salt or a deadline would break what the gateway promised.
 */
export function readEngineHeaders(header: (name: string) => string | undefined): EngineHeaders {
  return {
    cacheSalt: read(header, ENGINE_HEADERS.cacheSalt, "1 to 128 printable characters", (text) =>
      OPAQUE_NAME.test(text) ? text : undefined,
    ),
    promptChain: read(header, ENGINE_HEADERS.chain, "a length and hashes", parseChain),
    firstTokenBudgetMs: read(header, ENGINE_HEADERS.deadlineMs, "a duration in ms", parseDuration),
    tbtTargetMs: read(header, ENGINE_HEADERS.tbtMs, "a duration in ms above 0", (text) => {
      const durationMs = parseDuration(text);
      return durationMs === 0 ? undefined : durationMs;
    }),
    tenant: read(header, ENGINE_HEADERS.tenant, "1 to 128 printable characters", (text) =>
      OPAQUE_NAME.test(text) ? text : undefined,
    ),
    priority: read(header, ENGINE_HEADERS.priority, "an integer of at most 9 digits", (text) =>
      PRIORITY.test(text) ? Number(text) : undefined,
    ),
    tellsTokens: read(header, ENGINE_HEADERS.tellTokens, "1", parseOne),
    prefillOnly: read(header, ENGINE_HEADERS.prefillOnly, "1", parseOne),
    kvPeer: read(header, ENGINE_HEADERS.kvPeer, "the URL of an engine", parsePeer),
    dispatch: read(header, ENGINE_HEADERS.dispatch, "<epoch>.<number>", parseDispatchMark),
  };
}

/** Returns the gateway's id of a request for the log, or a new one where it sent none. */
export function readRequestId(header: (name: string) => string | undefined): string {
  const requestId = header(ENGINE_HEADERS.requestId) ?? "";
  return REQUEST_ID.test(requestId) ? requestId : `req_${randomBytes(16).toString("hex")}`;
}

function read<Value>(
  header: (name: string) => string | undefined,
  name: string,
  expected: string,
  parse: (text: string) => Value | undefined,
): Value | undefined {
  const text = header(name);
  if (text === undefined) return undefined;
  const value = parse(text);
  if (value !== undefined) return value;
  const message = `Expected the header '${name}' to be ${expected}`;
  throw new ProblemError({ code: "invalid_value", message, param: name });
}

/** A replica's URL as it is compared: a configuration may end it with a slash. */
export function withoutSlash(url: string): string {
  return url.replace(/\/+$/, "");
}

function parsePeer(text: string): KvPeer | undefined {
  const isUrl =
    text.length <= URL_CHARACTERS_MAX && /^https?:\/\//.test(text) && URL.canParse(text);
  return isUrl ? { url: withoutSlash(text) } : undefined;
}

function parseOne(text: string): true | undefined {
  return text === "1" ? true : undefined;
}

function parseDuration(text: string): number | undefined {
  return DURATION_MS.test(text) ? Number(text) : undefined;
}
