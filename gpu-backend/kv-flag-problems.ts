import type { GivenFlags } from "./read-flags.ts";

/** What flags about the KV pool, and about what is below and beside it, have wrong together. */
export function problemsOfKv({ texts, given, switches }: GivenFlags): string[] {
  const problems: string[] = [];
  const { "kv-blocks": blocks, "kv-shares": shares = "" } = texts;
  if (blocks !== undefined && Number(blocks) < Number(shares)) {
    problems.push(`--kv-blocks: expected at least --kv-shares (${shares}), found "${blocks}"`);
  }
  if (texts["kv-disk"] !== undefined && texts["kv-host-mib"] === "0") {
    problems.push("--kv-disk: expected with --kv-host-mib, through which all of it comes back");
  }
  if (given.has("kv-disk-mib") && texts["kv-disk"] === undefined) {
    problems.push("--kv-disk-mib: expected with --kv-disk, the folder that it bounds");
  }
  if (switches.has("no-prefix-cache") && texts["kv-host-mib"] !== "0") {
    problems.push(
      "--kv-host-mib: expected without --no-prefix-cache, since nothing is found there",
    );
  }
  if (texts["kv-peers"] !== undefined && texts["kv-host-mib"] === "0") {
    problems.push("--kv-peers: expected with --kv-host-mib, through which all of it comes");
  }
  return [...problems, ...problemsOfRole(texts, switches)];
}

/** Who computes for others has to keep it, and who is to have it from others has to know them. */
function problemsOfRole(
  texts: GivenFlags["texts"],
  switches: GivenFlags["switches"],
): readonly string[] {
  const { role = "" } = texts;
  if (role === "mixed") return [];
  if (switches.has("no-prefix-cache")) {
    return [
      `--role: expected without --no-prefix-cache, by which a ${role} replica gives or takes KV`,
    ];
  }
  if (role === "decode" && texts["kv-peers"] === undefined) {
    return ["--role: decode expects --kv-peers, the engines that compute its prompts"];
  }
  return [];
}
