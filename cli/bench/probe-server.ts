import * as z from "zod";
import type { ServerAccess } from "../doctor/ask-server.ts";
import { askServer } from "../doctor/ask-server.ts";
import { CommandFailure } from "../command.ts";
import type { AnswerEnd } from "./answer-end.ts";
import type { AnswerStreams } from "./stream-answer.ts";
import type { PromptMeasure } from "./prompt-text.ts";
import { ASSUMED_MEASURE, measureOf, promptText } from "./prompt-text.ts";

const Models = z.object({ data: z.array(z.object({ id: z.string() })) });

const KEY_HINT =
  "--token-env NAME, or key_env in a mix, names the environment variable that holds it";

/** Finds the model to ask: the first that the server names. Throws a `CommandFailure` where it names none or wants another key. */
export async function firstModelOf(access: ServerAccess): Promise<string> {
  const asked = await askServer(access, "/v1/models");
  if (asked.kind === "silent") throw new CommandFailure(`${access.baseUrl}: ${asked.reason}`);
  const { status, text } = asked.answer;
  if (status === 401 || status === 403) {
    throw new CommandFailure(
      access.token === undefined
        ? `${access.baseUrl} asks for a key (status ${status}): ${KEY_HINT}`
        : `${access.baseUrl} refuses the key (status ${status}): is it the right one? ${KEY_HINT}`,
    );
  }
  const [first] = status === 200 ? modelsIn(text) : [];
  if (first === undefined) {
    throw new CommandFailure(
      `${access.baseUrl} names no model (status ${String(status)}): say which with --model`,
    );
  }
  return first;
}

const PROBE_WORDS = [40, 120] as const;

/**
 * Finds how many tokens the server makes of our prompts, by two answers of one token: so lengths come out
 * as they were asked for without its tokenizer.
 */
export async function measurePrompts(
  streams: AnswerStreams,
  {
    tenantName,
    ...asked
  }: {
    /** Who asks, for complaints; absent: there are no tenants. */
    readonly tenantName?: string | undefined;
    readonly token: string | undefined;
    readonly className: string | undefined;
  },
  signal: AbortSignal,
): Promise<PromptMeasure> {
  const counts: { words: number; promptTokens: number }[] = [];
  for (const [index, words] of PROBE_WORDS.entries()) {
    const arrival = { index, atMs: 0, tenantIndex: 0, promptTokens: words, outputTokens: 1 };
    const prompt = promptText(
      arrival,
      { tokensPerWord: 1, overheadTokens: 0, isMeasured: false },
      -1,
    );
    const end = await streams.ask({ ...asked, prompt, outputTokens: 1 }, () => undefined, signal);
    if (end.kind === "failed") throw new CommandFailure(troubleText(end, tenantName));
    if (end.kind !== "answered" || end.inputTokens === undefined) return ASSUMED_MEASURE;
    counts.push({ words, promptTokens: end.inputTokens });
  }
  const [shorter, longer] = counts;
  return shorter && longer ? measureOf(shorter, longer) : ASSUMED_MEASURE;
}

function troubleText(
  { reason, status, message }: Extract<AnswerEnd, { kind: "failed" }>,
  tenantName: string | undefined,
): string {
  const requests = tenantName === undefined ? "requests" : `the requests of tenant ${tenantName}`;
  if (status === undefined) return `The server does not answer: ${reason}`;
  if (status === 200) return `The server gives ${requests} no whole answer: ${reason}`;
  const verb = status >= 400 && status < 500 ? "refuses" : "fails at";
  const said = message === undefined ? "" : `: ${message}`;
  const hint = status === 401 || status === 403 ? ` (${KEY_HINT})` : "";
  return `The server ${verb} ${requests}: ${reason}${said}${hint}`;
}

function modelsIn(text: string): string[] {
  try {
    const models = Models.safeParse(JSON.parse(text));
    return models.success ? models.data.data.map(({ id }) => id) : [];
  } catch {
    return [];
  }
}
