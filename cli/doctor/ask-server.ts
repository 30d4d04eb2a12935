import type { ProbeAnswer } from "../../src/adapters/engine-adapter.ts";
import { abortAfter } from "../abort-after.ts";
import { unlessAborted } from "../unless-aborted.ts";
import { messageOf } from "../command.ts";

const ANSWER_MS_MAX = 5_000;
/** Metrics of a server with many models. */
const ANSWER_CHARACTERS_MAX = 4_194_304;

/** How a server is reached. */
export interface ServerAccess {
  /** Without the version of its API. */
  readonly baseUrl: string;
  /** Its own bearer; absent: none. */
  readonly token: string | undefined;
}

/** What came of one question: an answer, or why there is none. */
export type Asked =
  | { readonly kind: "answered"; readonly answer: NonNullable<ProbeAnswer> }
  | { readonly kind: "silent"; readonly reason: string };

/** Asks a server one thing, without following it anywhere else. Never rejects. */
export async function askServer(
  { baseUrl, token }: ServerAccess,
  path: string,
  init: RequestInit = {},
): Promise<Asked> {
  try {
    const headers = new Headers(init.headers);
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    const signal = abortAfter(ANSWER_MS_MAX);
    const asked = fetch(`${baseUrl}${path}`, { ...init, headers, redirect: "manual", signal });
    const response = await unlessAborted(asked, signal);
    const text = await unlessAborted(readText(response), signal);
    const contentType = response.headers.get("content-type") ?? "";
    return { kind: "answered", answer: { status: response.status, text, contentType } };
  } catch (error) {
    // fetch's own message says no more than that it failed; the cause says why.
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    return { kind: "silent", reason: messageOf(cause) };
  }
}

/** The answer as adapters read it. */
export function answerOf(asked: Asked): ProbeAnswer {
  return asked.kind === "answered" ? asked.answer : undefined;
}

async function readText(response: Response): Promise<string> {
  let text = "";
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true });
    if (text.length > ANSWER_CHARACTERS_MAX) throw new Error("the answer is too large");
  }
  return text + decoder.decode();
}
