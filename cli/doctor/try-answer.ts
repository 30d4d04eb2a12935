import { ENGINE_HEADERS } from "../../src/protocol/headers.ts";
import { problemInAnswer } from "../../src/protocol/upstream-problem.ts";
import { UpstreamChunk } from "../../src/protocol/upstream-answer.ts";
import type { ServerAccess } from "./ask-server.ts";
import { askServer } from "./ask-server.ts";

/** How a server answered one short request, streamed. */
export type AnswerFindings =
  | {
      readonly kind: "answered";
      /** Whether the stream ended as the API says. */
      readonly hasDone: boolean;
      readonly tellsUsage: boolean;
      readonly tellsCachedTokens: boolean;
    }
  | { readonly kind: "failed"; readonly reason: string };

const MESSAGE_CHARACTERS_MAX = 200;

/** Asks for an answer of a few tokens and looks at what a gateway needs of it. Never rejects. */
export async function tryAnswer(
  access: ServerAccess,
  modelId: string,
  isOurs = false,
): Promise<AnswerFindings> {
  const asked = await askServer(access, "/v1/chat/completions", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      // Ours may serve none without; what is left cached under this is found by nobody.
      ...(isOurs && { [ENGINE_HEADERS.cacheSalt]: crypto.randomUUID() }),
    },
    body: JSON.stringify({
      model: modelId,
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: 4,
      temperature: 0,
      messages: [{ role: "user", content: "Say hello." }],
    }),
  });
  if (asked.kind === "silent") return { kind: "failed", reason: asked.reason };
  const { status, text } = asked.answer;
  if (status !== 200) {
    const said = text.replaceAll(/\s+/g, " ").slice(0, MESSAGE_CHARACTERS_MAX);
    return { kind: "failed", reason: `status ${status}: ${said}` };
  }
  const data = text
    .split(/\r?\n/)
    .flatMap((line) => (line.startsWith("data:") ? [line.slice("data:".length).trim()] : []));
  const bodies = data.filter((line) => line !== "[DONE]").map(parseJson);
  const problem = bodies.map(problemInAnswer).find((found) => found !== undefined);
  if (problem !== undefined) {
    return {
      kind: "failed",
      reason: `an error inside the stream: ${problem.message ?? "unnamed"}`,
    };
  }
  const usages = bodies.flatMap((body) => UpstreamChunk.safeParse(body).data?.usage ?? []);
  return {
    kind: "answered",
    hasDone: data.at(-1) === "[DONE]",
    tellsUsage: usages.length > 0,
    tellsCachedTokens: usages.some(
      ({ prompt_tokens_details: details }) => typeof details?.cached_tokens === "number",
    ),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
