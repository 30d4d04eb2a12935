import { endianness } from "node:os";
import { randomBytes } from "node:crypto";
import type { Handler } from "hono";
import { type EmbeddingsAnswer, EmbeddingsRequest } from "../../src/protocol/embeddings.ts";
import { InertCompletionParameters } from "../../src/protocol/inert-parameters.ts";
import type { GenerateRequest } from "../engine/generate-request.ts";
import { GREEDY_SAMPLING } from "../engine/generate-request.ts";
import type { AppContext, EngineEnvironment, ServedModel } from "./app-context.ts";
import { requestTerms } from "./generation.ts";
import { requireModel } from "./models-route.ts";
import { problemOfBroken } from "./problem-of-broken.ts";
import { ProblemError } from "./problem-error.ts";
import { type Arrival, readRequest } from "./read-request.ts";
import { submitEmbeddings } from "./submit-embeddings.ts";
import { takeTexts } from "./take-prompt.ts";

const SCHEMAS = { request: EmbeddingsRequest, inert: InertCompletionParameters };

/** Answers with the mean of each text's last hidden states, as a vector of unit length. */
export function embedTexts(context: AppContext): Handler<EngineEnvironment> {
  return async (c) => {
    const running = await readRequest(context, c, SCHEMAS, async (request, arrival) => {
      const model = requireModel(context, request.model);
      const requests = await takeIn(context, model, request, arrival);
      const asked = { model, requests, promptParam: "input" };
      return { request, asked, ...submitEmbeddings(context, asked, arrival) };
    });
    const { request, asked } = running;
    if (c.env.outgoing.destroyed) running.cancel();
    else c.env.outgoing.once("close", () => running.cancel());
    const embedded = await running.embedded;
    if (embedded.kind !== "vectors") {
      throw new ProblemError(problemOfBroken(context, asked, embedded));
    }
    const write = request.encoding_format === "base64" ? toBase64 : toNumbers;
    const promptTokens = asked.requests.reduce((sum, one) => sum + one.promptTokens.length, 0);
    const answer: EmbeddingsAnswer = {
      object: "list",
      data: embedded.vectors.map((vector, index) => ({
        object: "embedding",
        index,
        embedding: write(vector),
      })),
      model: asked.model.name,
      usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
    };
    return c.json(answer);
  };
}

async function takeIn(
  context: AppContext,
  model: ServedModel,
  request: EmbeddingsRequest,
  arrival: Arrival,
): Promise<readonly GenerateRequest[]> {
  const prompts = await takeTexts(model, request.input, "input");
  const id = `embd-${randomBytes(16).toString("hex")}`;
  const terms = requestTerms(context, arrival, request);
  return prompts.map((promptTokens, index) => ({
    ...terms,
    id: `${id}-${index}`,
    promptTokens,
    outputTokensMax: 0,
    outputTokensMin: 0,
    sampling: GREEDY_SAMPLING,
    pooling: "mean",
    stopTokenIds: [],
  }));
}

function toNumbers(vector: Float32Array): readonly number[] {
  return [...vector];
}

/** Clients read the bytes as little-endian floats. */
function toBase64(vector: Float32Array): string {
  const bytes = Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength);
  return (endianness() === "LE" ? bytes : Buffer.from(bytes).swap32()).toString("base64");
}
