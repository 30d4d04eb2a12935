import type { Random } from "../../src/base/random.ts";

/** One request of a soak, and what may become of it. */
export interface SoakRequest {
  readonly name: string;
  readonly path: string;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
  /** How a right answer to it looks. */
  readonly expects: "text" | "stream" | "json" | "refusal";
  /** After so many pieces of the answer the client leaves; undefined if it reads to the end. */
  readonly leavesAfterPieces: number | undefined;
  /** The most tokens that it can make the engine draw. */
  readonly outputTokensMax: number;
}

type Drawn = Omit<SoakRequest, "body" | "headers" | "leavesAfterPieces" | "outputTokensMax"> & {
  readonly body: object | string;
};

/** One kind of request, drawn as often as its weight says. */
type Kind = readonly [weight: number, draw: (random: Random) => Drawn];

const SALTS = ["alpha", "beta", "gamma"];
const WORDS = "fox river old sat tree moon red bird 你好 été 🦊 count name city the a of and".split(
  " ",
);
/** About every second client that leaves does so before it has read anything. */
const LEAVING_RATIO = 0.2;
const PIECES_MAX = 12;
const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";

const KINDS: readonly Kind[] = [
  [30, (random) => chat("chat", random, {})],
  [14, (random) => completion("completion", random, {})],
  [6, (random) => chat("choices", random, { n: 1 + below(random, 4), seed: below(random, 99) })],
  [5, (random) => completion("several prompts", random, { prompt: [text(random), text(random)] })],
  [5, (random) => completion("echo", random, { echo: true, logprobs: below(random, 6) })],
  [4, (random) => chat("log probabilities", random, { logprobs: true, top_logprobs: 5 })],
  [5, (random) => chat("rules", random, RULES[below(random, RULES.length)] ?? {})],
  [4, (random) => chat("schema", random, { ...schemaOf(random), max_tokens: 60 })],
  [4, (random) => chat("tools", random, { tools: [TOOL], tool_choice: "required" })],
  [4, (random) => chat("long prompt", random, { messages: [ask(text(random).repeat(6))] })],
  [3, (random) => request("embeddings", "/v1/embeddings", { input: [text(random), ""] })],
  [3, (random) => request("tokens", "/v1/tokenize", { prompt: text(random) })],
  [
    3,
    (random) =>
      request(
        "a megabyte",
        COMPLETIONS,
        { prompt: "a".repeat(2 ** 20 - below(random, 9)) },
        "refusal",
      ),
  ],
  [10, (random) => badRequest(random)],
];

const RULES: readonly object[] = [
  { frequency_penalty: 1.5, presence_penalty: 0.5, repetition_penalty: 1.2 },
  { logit_bias: { 300: 5, 301: -100 } },
  { min_tokens: 10, ignore_eos: true },
  { stop: ["a", "the"], include_stop_str_in_output: true },
  { stop_token_ids: [300, 301, 302], min_p: 0.1, top_k: 20, top_p: 0.9 },
];

const TOOL = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: { type: "object", properties: { city: { enum: ["Rome", "Paris"] } } },
  },
};

const BAD: readonly (readonly [path: string, body: object | string])[] = [
  [CHAT, "{"],
  [CHAT, "[".repeat(100_000)],
  [CHAT, { messages: [] }],
  [CHAT, { messages: [ask("x")], temperature: 99 }],
  [CHAT, { messages: [ask("x")], model: "gpt-4" }],
  [CHAT, { messages: [ask("x")], logit_bias: { 99999: 1 } }],
  [CHAT, { messages: [ask("x")], ...schema({ type: "strnig" }) }],
  [CHAT, { messages: [ask("x")], ...schema({ $ref: "#/nowhere" }) }],
  [COMPLETIONS, { prompt: "x", max_tokens: 0 }],
  [COMPLETIONS, { prompt: [99999] }],
  [COMPLETIONS, { prompt: Array.from({ length: 3000 }, () => 400) }],
  [COMPLETIONS, { prompt: "x", stop: Array.from({ length: 1000 }, (_, index) => `${index}`) }],
  ["/v1/embeddings", { input: [] }],
  ["/v1/nothing", {}],
];

/** Draws the next request of a soak. */
export function drawRequest(random: Random): SoakRequest {
  const total = KINDS.reduce((sum, [weight]) => sum + weight, 0);
  let left = random() * total;
  const [, draw] = KINDS.find(([weight]) => (left -= weight) < 0) ?? [0, badRequest];
  const drawn = draw(random);
  const common = { model: "sluice-tiny", priority: below(random, 3) - 1 };
  const body = typeof drawn.body === "string" ? {} : { ...common, ...drawn.body };
  const leaves = drawn.expects !== "refusal" && random() < LEAVING_RATIO;
  return {
    ...drawn,
    body: typeof drawn.body === "string" ? drawn.body : JSON.stringify(body),
    headers: { "x-gw-cache-salt": SALTS[below(random, SALTS.length)] ?? "alpha" },
    leavesAfterPieces: leaves ? Math.max(0, below(random, 2 * PIECES_MAX) - PIECES_MAX) : undefined,
    outputTokensMax: outputTokensMaxOf(body),
  };
}

function chat(name: string, random: Random, extra: object): Drawn {
  return generation(name, CHAT, random, { messages: [ask(text(random))], ...extra });
}

function completion(name: string, random: Random, extra: object): Drawn {
  return generation(name, COMPLETIONS, random, { prompt: text(random), ...extra });
}

function generation(name: string, path: string, random: Random, extra: object): Drawn {
  const isStream = random() < 0.6;
  const stream = isStream ? { stream: true, stream_options: { include_usage: true } } : {};
  const body = {
    max_tokens: 10 + below(random, 60),
    temperature: random() < 0.3 ? 0 : 0.9,
    ...stream,
    ...extra,
  };
  return { name, path, body, expects: isStream ? "stream" : "text" };
}

function request(
  name: string,
  path: string,
  body: object,
  expects: SoakRequest["expects"] = "json",
): Drawn {
  return { name, path, body, expects };
}

function badRequest(random: Random): Drawn {
  const [path, body] = BAD[below(random, BAD.length)] ?? [CHAT, "{"];
  return { name: "bad", path, body, expects: "refusal" };
}

function schemaOf(random: Random): object {
  // Some are new each time, so that compiled ones have to make room.
  const name = random() < 0.5 ? "fox" : `fox ${below(random, 1000)}`;
  const properties = { name: { enum: [name] }, isOld: { type: "boolean" } };
  return schema({ type: "object", properties, required: ["name"], additionalProperties: false });
}

function schema(json: object): object {
  const format = { name: "answer", strict: true, schema: json };
  return { response_format: { type: "json_schema", json_schema: format } };
}

function ask(content: string): object {
  return { role: "user", content };
}

function text(random: Random): string {
  const length = 3 + below(random, 30);
  return Array.from({ length }, () => WORDS[below(random, WORDS.length)] ?? "").join(" ");
}

function outputTokensMaxOf(body: object): number {
  const {
    max_tokens: each = 0,
    n = 1,
    prompt,
  } = body as {
    max_tokens?: number;
    n?: number;
    prompt?: unknown;
  };
  return each * n * (Array.isArray(prompt) ? prompt.length : 1);
}

function below(random: Random, bound: number): number {
  return Math.floor(random() * bound);
}
