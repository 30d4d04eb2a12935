import type { EngineAdapter, OwnWords } from "./engine-adapter.ts";

/**
 * Returns how a client's body is changed for a server of a kind: JSON to set, or `undefined` to take out. What
 * the gateway says wins over what the client wrote under the same name.
 */
export function bodyEditsOf(
  { withheldMembers, ownMembers }: EngineAdapter,
  words: OwnWords,
): Readonly<Record<string, string | undefined>> {
  const withheld = withheldMembers.map((name) => [name, undefined] as const);
  return { ...Object.fromEntries(withheld), ...ownMembers?.(words) };
}
