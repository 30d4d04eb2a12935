/** What the person (or the program) that started a stack is told, in the order it happens. */
export type StackEvent =
  | {
      readonly event: "engine-started";
      readonly name: string;
      readonly url: string;
      readonly pid: number;
    }
  | ({ readonly event: "engine-ready"; readonly name: string; readonly url: string } & EngineFacts)
  | {
      readonly event: "engine-died";
      readonly name: string;
      readonly cause: string;
      readonly logTail: readonly string[];
      readonly attempt: number;
      readonly attemptsMax: number;
      readonly delayMs: number;
    }
  | {
      readonly event: "ready";
      readonly url: string;
      readonly replicas: number;
      readonly tenants: number;
      readonly file: string;
      readonly demoKeys: readonly DemoKey[];
    }
  | { readonly event: "failed"; readonly sentence: string; readonly logTail: readonly string[] }
  | { readonly event: "stopping" }
  | { readonly event: "stopped" };

/** What an engine says of itself once it can serve. */
export interface EngineFacts {
  readonly model: string;
  /** Weights of the model. */
  readonly parameters: number;
  readonly precision: string;
  readonly runtime: string;
  /** What the weights, the KV pool and a step's buffers take; none of them grows. */
  readonly weightBytes: number;
  readonly kvPoolBytes: number;
  /** Tokens whose keys and values the pool holds. */
  readonly kvPoolTokens: number;
  readonly scratchBytes: number;
  readonly readyMs: number;
}

/** A key that anyone may know, since only a local configuration accepts it. */
export interface DemoKey {
  readonly tenant: string;
  readonly key: string;
  /** A model that the tenant may use, if it may use any. */
  readonly model?: string;
}

const NAME_WIDTH = 11;
const URL_WIDTH = 23;

/** Lays an event out as lines for a person; most events are one line, some are none. */
export function toTextLines(event: StackEvent): readonly string[] {
  if (event.event === "engine-ready") {
    const { name, url, model, parameters, precision, runtime, readyMs } = event;
    const memory = `weights ${toMebibytes(event.weightBytes)}, KV of ${event.kvPoolTokens} tokens ${toMebibytes(event.kvPoolBytes)}, steps ${toMebibytes(event.scratchBytes)} MiB`;
    const facts = `${model}, ${toMillions(parameters)}, ${precision}, ${runtime}, ${memory}`;
    return [row("engine", name, url, `${facts}   ready in ${toSeconds(readyMs)}`)];
  }
  if (event.event === "engine-died") {
    const { name, cause, logTail, attempt, attemptsMax, delayMs } = event;
    const next = `restart ${attempt} of ${attemptsMax} in ${toSeconds(delayMs)}`;
    return [row("engine", name, `died (${cause})`, next), ...logTail.map(quote)];
  }
  if (event.event === "ready") {
    const { url, replicas, tenants, file, demoKeys } = event;
    return [
      row(
        "gateway",
        "",
        url,
        `${count(replicas, "replica")}, ${count(tenants, "tenant")} (${file})`,
      ),
      ...demoKeys.map(({ tenant, key }) => row("key", tenant, key, "")),
      ...tryIt(url, demoKeys),
      "ready",
    ];
  }
  if (event.event === "failed") return [event.sentence, ...event.logTail.map(quote)];
  return event.event === "engine-started" ? [] : [event.event];
}

/** A command that can be pasted as it is, where there is a demo key that may use a model. */
function tryIt(url: string, demoKeys: readonly DemoKey[]): readonly string[] {
  const usable = demoKeys.find(({ model }) => model !== undefined);
  if (usable === undefined) return [];
  const body = {
    model: usable.model,
    stream: true,
    messages: [{ role: "user", content: "Tell me a story about a fox." }],
  };
  const indent = " ".repeat("engine  ".length + NAME_WIDTH + 2);
  return [
    `${"try it".padEnd(indent.length)}curl -N ${url}/v1/chat/completions -H "authorization: Bearer ${usable.key}" \\`,
    `${indent}  -H "content-type: application/json" -d '${JSON.stringify(body)}'`,
  ];
}

const quote = (line: string) => `        | ${line}`;

const row = (kind: string, name: string, url: string, rest: string) =>
  `${kind.padEnd(8)}${name.padEnd(NAME_WIDTH)}  ${url.padEnd(URL_WIDTH)}  ${rest}`.trimEnd();

const toMillions = (parameters: number) =>
  parameters >= 1e9 ? `${(parameters / 1e9).toFixed(1)} G` : `${Math.round(parameters / 1e6)} M`;

const toSeconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

const count = (amount: number, noun: string) => `${amount} ${noun}${amount === 1 ? "" : "s"}`;

function toMebibytes(byteLength: number): number {
  return Math.ceil(byteLength / 2 ** 20);
}
