import type { Flag } from "./read-flags.ts";

/** What `--help` prints: every flag there is, and the variable of the secret. */
export function engineHelp(flags: Readonly<Record<string, Flag>>, secretVariable: string): string {
  const usages = Object.entries(flags).map(
    ([name, flag]) => `--${name}${flag.argument === undefined ? "" : ` ${flag.argument}`}`,
  );
  const width = Math.max(...usages.map((usage) => usage.length));
  const lines = Object.values(flags).map((flag, index) => {
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
    `  ${secretVariable}  the secret shared with the gateway; without it the engine serves only`,
    "  this machine, to anyone on it",
    "  HF_HUB_CACHE, HF_HOME  where models that were pulled are kept (~/.cache/huggingface)",
    "",
  ].join("\n");
}
