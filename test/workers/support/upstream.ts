import { inject } from "vitest";
import type { ReceivedRequest, UpstreamStep } from "../../support/upstream-script.ts";

/** A scripted engine as a test sees it. */
export interface Upstream {
  readonly endpointUrl: string;
  /** Where another replica with the same script is; number 0 is at `endpointUrl`. */
  endpointUrlOf(address: number): string;
  /** Sets what it answers: one list of steps a request, the last one for all that follow. */
  answerWith(...answers: readonly (readonly UpstreamStep[])[]): Promise<void>;
  /** Sets what it says of itself when it is asked, by path: of one replica by `1/health`, of all by `/health`. */
  saysOfItself(probes: Readonly<Record<string, readonly UpstreamStep[]>>): Promise<void>;
  /** How it was asked for that so far, oldest first. */
  probed(): Promise<ReceivedRequest[]>;
  openGate(name: string): Promise<void>;
  /** What it received so far, oldest first. */
  requests(): Promise<ReceivedRequest[]>;
}

/** Returns a fresh engine on loopback that answers 501 until it is told what. */
export function anUpstream(): Upstream {
  const upstreamUrl = inject("upstreamUrl");
  const name = crypto.randomUUID();
  const control = async (command: string, body = ""): Promise<ReceivedRequest[]> => {
    const url = `${upstreamUrl}/control/${name}/${command}`;
    const response = await fetch(url, { method: "POST", body });
    return response.json();
  };
  const endpointUrl = `${upstreamUrl}/engines/${name}`;
  return {
    endpointUrl,
    endpointUrlOf: (address) => (address === 0 ? endpointUrl : `${endpointUrl}.${address}`),
    async answerWith(...answers) {
      await control("answers", JSON.stringify(answers));
    },
    async saysOfItself(probes) {
      await control("probes", JSON.stringify(probes));
    },
    probed: () => control("probed"),
    async openGate(gate) {
      await control(`gates/${gate}`);
    },
    requests: () => control("requests"),
  };
}

export const EVENT_STREAM_HEAD: UpstreamStep = {
  kind: "head",
  status: 200,
  headers: { "content-type": "text/event-stream; charset=utf-8" },
};

/** One SSE frame with a chat completion chunk in it, shaped as OpenAI-compatible engines do. */
export function chunkFrame(choice: object, extra: object = {}): UpstreamStep {
  const chunk = {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "sluice-tiny",
    choices: [{ index: 0, delta: {}, logprobs: null, finish_reason: null, ...choice }],
    ...extra,
  };
  return { kind: "text", text: `data: ${JSON.stringify(chunk)}\n\n` };
}

export const DONE_FRAME: UpstreamStep = { kind: "text", text: "data: [DONE]\n\n" };

/** A whole, well-behaved streamed answer with one chunk a word. */
export function streamedAnswer(words: readonly string[]): UpstreamStep[] {
  const usage = {
    prompt_tokens: 12,
    completion_tokens: words.length,
    total_tokens: 12 + words.length,
    prompt_tokens_details: { cached_tokens: 0 },
  };
  return [
    EVENT_STREAM_HEAD,
    chunkFrame({ delta: { role: "assistant", content: "" } }),
    ...words.map((content) => chunkFrame({ delta: { content } })),
    chunkFrame({ finish_reason: "stop" }),
    chunkFrame({}, { choices: [], usage }),
    DONE_FRAME,
    { kind: "end" },
  ];
}

/** A whole answer to a request without `stream`. */
export function wholeAnswer(content: string): UpstreamStep[] {
  const completion = {
    id: "chatcmpl-1",
    object: "chat.completion",
    created: 1_700_000_000,
    model: "sluice-tiny",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content, refusal: null },
        logprobs: null,
        finish_reason: "stop",
      },
    ],
    usage: {
      prompt_tokens: 12,
      completion_tokens: 3,
      total_tokens: 15,
      prompt_tokens_details: { cached_tokens: 0 },
    },
  };
  return jsonAnswer(completion);
}

/** One SSE frame with a chunk of a text completion in it. */
export function completionFrame(choice: object, extra: object = {}): UpstreamStep {
  const chunk = {
    id: "cmpl-1",
    object: "text_completion",
    created: 1_700_000_000,
    model: "sluice-tiny",
    choices: [{ index: 0, text: "", logprobs: null, finish_reason: null, ...choice }],
    ...extra,
  };
  return { kind: "text", text: `data: ${JSON.stringify(chunk)}\n\n` };
}

/** A whole, well-behaved streamed completion with one chunk a word. */
export function streamedCompletion(words: readonly string[]): UpstreamStep[] {
  const usage = { prompt_tokens: 5, completion_tokens: words.length };
  return [
    EVENT_STREAM_HEAD,
    ...words.map((text) => completionFrame({ text })),
    completionFrame({ finish_reason: "length" }),
    completionFrame({}, { choices: [], usage }),
    DONE_FRAME,
    { kind: "end" },
  ];
}

/** An answer of status 200 that comes as one JSON. */
export function jsonAnswer(body: object): UpstreamStep[] {
  return [
    { kind: "head", status: 200, headers: { "content-type": "application/json" } },
    { kind: "text", text: JSON.stringify(body) },
    { kind: "end" },
  ];
}
