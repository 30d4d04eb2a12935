import { RUNTIME_CHOICES } from "./engine/executor/runtime-choice.ts";
import type { Flag } from "./read-flags.ts";

/** The environment's name of what the gateway and this engine know each other by. */
export const SECRET_VARIABLE = "SLUICE_REPLICA_SECRET";

/** What an engine can be started with. */
export const FLAGS: Readonly<Record<string, Flag>> = {
  model: {
    argument: "DIR|ORG/NAME",
    help: "directory of the model, or what was pulled (default: the bundled sluice-tiny)",
  },
  "model-name": {
    argument: "NAME",
    help: "what clients call it (default: ORG/NAME or the directory's name)",
  },
  host: { argument: "ADDRESS", help: "address to listen on", default: "127.0.0.1" },
  port: { argument: "N", help: "port to listen on, 0 for any free one", default: "9101" },
  precision: { argument: "int8|f32", help: "arithmetic of the weights", default: "int8" },
  "kv-precision": {
    argument: "int8|f32",
    help: "how keys and values are kept; int8 takes a fourth (default: as --precision)",
  },
  runtime: {
    argument: RUNTIME_CHOICES.join("|"),
    help: "what runs the model; auto: onnxruntime-node where it is installed, else wasm; webgpu: with f32",
    default: "auto",
  },
  "kv-blocks": {
    argument: "N",
    help: "blocks of the KV pool (default: 128 MiB, one context at least)",
  },
  "block-tokens": {
    argument: "N",
    help: "tokens of one KV block, a multiple of 16",
    default: "16",
  },
  "max-batch-tokens": { argument: "N", help: "tokens that one step may compute", default: "256" },
  "max-sequences": { argument: "N", help: "requests that may run at once", default: "16" },
  "max-queue": { argument: "N", help: "requests that may wait to run", default: "64" },
  "require-salt": { help: "refuse requests without the header x-gw-cache-salt" },
  policy: {
    argument: "fcfs|priority|least-slack",
    help: "who is served first",
    default: "fcfs",
  },
  "keep-tbt": {
    help: "shorten steps to the TBT targets of running requests; least-slack does unless prompts stay whole",
  },
  "no-chunked-prefill": {
    help: "compute a prompt in one step; the context is --max-batch-tokens at most",
  },
  "kv-admission": {
    argument: "known|past-future",
    help: "admit what fits now, or only what is expected to fit to its end",
    default: "known",
  },
  "kv-shares": {
    argument: "N",
    help: "divide the KV pool among N tenants: a request fits into a share, which others leave alone",
    default: "1",
  },
  "kv-host-mib": {
    argument: "N",
    help: "memory for what the KV pool evicts, to be loaded where that is quicker than to compute it",
    default: "0",
  },
  "kv-disk": {
    argument: "DIR",
    help: "folder for what requests have computed, found again after a restart; of this engine alone, with --kv-host-mib",
  },
  "kv-disk-mib": { argument: "N", help: "what may be in that folder", default: "1024" },
  "kv-peers": {
    argument: "URL,…",
    help: "engines of the same model that KV may be fetched from where the gateway says they have it; with --kv-host-mib",
  },
  role: {
    argument: "prefill|decode|mixed",
    help: "what the pool is to send it: prompts to compute for others, or requests whose prompts come from --kv-peers; a hint",
    default: "mixed",
  },
  roles: {
    argument: "ROLE,…",
    help: "run an engine a role in this process, on ports from --port on, that have KV of each other in memory",
  },
  isolation: {
    argument: "borrow|strict",
    help: "whether a tenant may use what others leave of their shares",
    default: "borrow",
  },
  speculation: {
    argument: "off|lookup|draft|auto",
    help: "guess outputs and verify it: from the text so far, by a draft model, or by either; where it pays",
    default: "lookup",
  },
  "draft-model": {
    argument: "DIR",
    help: "directory of the draft model (default: the bundled one, for the bundled model)",
  },
  "max-draft-tokens": {
    argument: "N",
    help: "guesses of one request that one step verifies at most",
    default: "8",
  },
  "no-prefix-cache": { help: "compute every prompt from its first token on" },
  "pool-url": { argument: "URL", help: "pool to report to: ws(s)://HOST/internal/pools/POOL" },
  "advertise-url": {
    argument: "URL",
    help: "where the gateway reaches this engine (default: where it listens)",
  },
  "drain-ms": { argument: "MS", help: "time for running requests to finish in", default: "10000" },
  "exit-with-stdin": { help: "stop when standard input ends: a parent that dies leaves nothing" },
  help: { help: "print this text" },
};

/** The text of `--help`. */
export function helpText(): string {
  const usages = Object.entries(FLAGS).map(
    ([name, flag]) => `--${name}${flag.argument === undefined ? "" : ` ${flag.argument}`}`,
  );
  const width = Math.max(...usages.map((usage) => usage.length));
  const lines = Object.values(FLAGS).map((flag, index) => {
    const ending = flag.default === undefined ? "" : ` (default: ${flag.default})`;
    return `  ${(usages[index] ?? "").padEnd(width)}  ${flag.help}${ending}`;
  });
  return [
    "Serves one model over an OpenAI-compatible API.",
    "",
    "Usage: npm run engine -- [FLAG …]",
    "",
    ...lines,
    "",
    "Environment:",
    `  ${SECRET_VARIABLE}  the secret shared with the gateway; without it the engine serves only`,
    "  this machine, to anyone on it",
    "  HF_HUB_CACHE, HF_HOME  where models that were pulled are kept (~/.cache/huggingface)",
    "",
  ].join("\n");
}
