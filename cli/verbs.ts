import type * as z from "zod";
import { ADMIN_ENVIRONMENT } from "./admin-flags.ts";
import type { Command, Terminal } from "./command.ts";
import { CommandFailure, EXIT_CODES, WrongUse } from "./command.ts";
import { parseWords, toHelpLines } from "./flags.ts";

/** A result as lines for people, and for programs as one JSON object. */
export interface VerbResult {
  readonly lines: readonly string[];
  readonly json: object;
}

/** One thing that a command can do, such as `keys rotate`. */
interface VerbDefinition<Flags extends z.ZodObject> {
  readonly name: string;
  readonly summary: string;
  /** What its words stand for, in capitals. All of them must be given. */
  readonly words: readonly string[];
  readonly flags: Flags;
  readonly run: (flags: z.output<Flags>, ...words: string[]) => Promise<VerbResult>;
}

/** A verb without the types of its flags. */
export interface Verb {
  readonly name: string;
  readonly help: string;
  run(words: readonly string[], terminal: Terminal): Promise<void>;
}

export function verb<Flags extends z.ZodObject>(definition: VerbDefinition<Flags>): Verb {
  const { name, summary, words: wordNames, flags } = definition;
  return {
    name,
    help: `${[name, ...wordNames].join(" ")}: ${summary}\n${toHelpLines(flags)}`,
    async run(words, terminal) {
      const { values, positionals } = parseWords(words, flags, wordNames.length);
      const missing = wordNames[positionals.length];
      if (missing !== undefined) throw new WrongUse(`Expected a word for ${missing}`);
      const { lines, json } = await definition.run(values, ...positionals);
      if ("json" in values && values["json"] === true) terminal.print(JSON.stringify(json));
      else for (const line of lines) terminal.print(line);
    },
  };
}

/** Makes a command of verbs: its first word says what to do. */
export function commandOf(
  {
    name,
    summary,
    environment = ADMIN_ENVIRONMENT,
  }: Pick<Command, "name" | "summary"> & { readonly environment?: string },
  verbs: readonly Verb[],
): Command {
  const names = verbs.map((each) => each.name).join(", ");
  return {
    name,
    synopsis: "VERB [words] [flags]",
    summary,
    help: `${summary}. VERB is one of: ${names}\n\n${verbs.map(({ help }) => help).join("\n\n")}\n\n${environment}`,
    async run([first, ...rest], terminal) {
      const chosen = verbs.find((each) => each.name === first);
      if (chosen === undefined) throw new WrongUse(wrongVerb(first, names));
      await chosen.run(rest, terminal);
      return EXIT_CODES.ok;
    },
  };
}

/** Throws unless an act that cannot be undone was confirmed; `plan` says what it would do. */
export function requireYes(isConfirmed: boolean, plan: readonly string[]): void {
  if (isConfirmed) return;
  throw new CommandFailure([...plan, "Nothing was done: say --yes if this is meant"].join("\n"));
}

/** Lays rows out in columns; the first row is their heads. */
export function toColumns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => (row[column] ?? "").length)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** An instant as people read it, to the second. */
export function instantText(atMs: number | undefined): string {
  return atMs === undefined ? "-" : new Date(atMs).toISOString().replace(/\.\d+Z$/, "Z");
}

function wrongVerb(found: string | undefined, names: string): string {
  if (found?.startsWith("-") === true && found !== "-") return `Unknown option '${found}'`;
  return `Expected one of ${names}${found === undefined ? "" : `, found "${found}"`}`;
}
