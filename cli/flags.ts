import { parseArgs } from "node:util";
import * as z from "zod";
import { assert } from "../src/base/assert.ts";
import { WrongUse } from "./command.ts";

/** What the help says of one flag. */
interface FlagHelp {
  /** Stands for the flag's value; a flag without one is a switch. */
  readonly valueName?: string;
  readonly meaning: string;
}

/** The help of every flag. A command's flags are one schema, and each registers its help here. */
export const FLAG_HELP = z.registry<FlagHelp>();

/**
 * Splits the words after a command's name into flags and positionals, and parses the flags' values.
 * Throws `WrongUse` that names every fault at once.
 */
export function parseWords<Flags extends z.ZodObject>(
  words: readonly string[],
  flags: Flags,
  positionalsMax: number,
): { readonly values: z.output<Flags>; readonly positionals: readonly string[] } {
  const { values, positionals } = splitWords(words, flags);
  const surplus = positionals[positionalsMax];
  if (surplus !== undefined) throw new WrongUse(`Unexpected word "${surplus}"`);

  const parsed = flags.safeParse(values);
  if (parsed.success) return { values: parsed.data, positionals };
  const faults = parsed.error.issues.map((issue) => {
    const name = String(issue.path[0]);
    const found = values[name] === undefined ? "" : `, found "${String(values[name])}"`;
    return `--${name}: ${issue.message}${found}`;
  });
  throw new WrongUse(faults.join("\n"));
}

/** Lays the flags out as the lines of a help text. */
export function toHelpLines(flags: z.ZodObject): string {
  const rows = listFlags(flags).map(({ name, valueName, meaning }) => ({
    left: `  --${name}${valueName === undefined ? "" : ` ${valueName}`}`,
    meaning,
  }));
  rows.push({ left: "  --help", meaning: "Print this text" });
  const width = Math.max(...rows.map((row) => row.left.length)) + 2;
  return rows.map((row) => row.left.padEnd(width) + row.meaning).join("\n");
}

const PORT_MAX = 65_535;

/** A whole number as a flag gives it, between two bounds that are both allowed. */
export function wholeNumber(min: number, max: number) {
  const message = `Expected a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^[0-9]{1,9}$/, message)
    .transform(Number)
    .refine((count) => count >= min && count <= max, message);
}

/** A flag that takes a whole number and has a default, which stands behind its meaning in the help. */
export function countFlag(
  bounds: { readonly min: number; readonly max: number; readonly default: number },
  meaning: string,
) {
  return wholeNumber(bounds.min, bounds.max)
    .default(bounds.default)
    .register(FLAG_HELP, { valueName: "N", meaning: `${meaning} (${bounds.default})` });
}

/** A TCP port as a flag gives it. */
export const portNumber = wholeNumber(1, PORT_MAX);

/** A flag that takes names with commas between them. */
export function listFlag(valueName: string, meaning: string) {
  return z
    .string()
    .transform((text) => text.split(",").map((name) => name.trim()))
    .refine(
      (names) => names.every((name) => name !== ""),
      "Expected names with commas between them",
    )
    .optional()
    .register(FLAG_HELP, { valueName, meaning });
}

/** A flag that is there or not. */
export function flagSwitch(meaning: string) {
  return z.boolean().default(false).register(FLAG_HELP, { meaning });
}

function splitWords(words: readonly string[], flags: z.ZodObject) {
  const options = Object.fromEntries(
    listFlags(flags).map(({ name, valueName }) => [
      name,
      { type: valueName === undefined ? ("boolean" as const) : ("string" as const) },
    ]),
  );
  try {
    return parseArgs({ args: joinNegatives(words), allowPositionals: true, options });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // Node's message goes on about positionals that start with a dash; its first sentence is enough.
    const [sentence = error.message] = error.message.split(". ");
    throw new WrongUse(sentence);
  }
}

/** A number below 0 behind a flag is its value, to be judged as any other: Node asks what is meant by it. */
function joinNegatives(words: readonly string[]): string[] {
  const joined: string[] = [];
  for (const word of words) {
    const before = joined.at(-1);
    if (/^-\d/.test(word) && before !== undefined && /^--[^=]+$/.test(before)) {
      joined[joined.length - 1] = `${before}=${word}`;
    } else {
      joined.push(word);
    }
  }
  return joined;
}

function listFlags(flags: z.ZodObject): readonly ({ readonly name: string } & FlagHelp)[] {
  return Object.entries(flags.shape).map(([name, schema]) => {
    const help = FLAG_HELP.get(schema);
    assert(help !== undefined, `the flag --${name} has no help`);
    return { name, ...help };
  });
}
