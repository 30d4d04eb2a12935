import { WrongUse } from "../../cli/command.ts";

/** Refuses a name of a list flag that nothing has. Throws `WrongUse` that tells those that there are. */
export function requireKnown(wanted: readonly string[] = [], names: readonly string[]): void {
  const unknown = wanted.find((name) => !names.includes(name));
  if (unknown === undefined) return;
  throw new WrongUse(`Expected of ${names.join(", ")}, found "${unknown}"`);
}
