import { parseArgs } from "node:util";

/** One flag of the command line; a switch takes no argument. */
export interface Flag {
  readonly argument?: string;
  readonly help: string;
  readonly default?: string;
}

/** What a command line says. */
export interface GivenFlags {
  /** What each flag that takes an argument was given, or its default. */
  readonly texts: Readonly<Record<string, string>>;
  /** Which of them it names itself. */
  readonly given: ReadonlySet<string>;
  readonly switches: ReadonlySet<string>;
  readonly problems: readonly string[];
}

/**
 * Reads a command line by the flags there are. Tells every fault, each with what was found and what would
 * be right; the values themselves are not looked at.
 */
export function readFlags(
  argv: readonly string[],
  flags: Readonly<Record<string, Flag>>,
): GivenFlags {
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(flags).map(([name, flag]) => [
        name,
        { type: flag.argument === undefined ? "boolean" : "string" } as const,
      ]),
    ),
    // Strict parsing throws at the first fault, and all of them are wanted.
    strict: false,
    tokens: true,
  });
  const texts: Record<string, string> = {};
  for (const [name, flag] of Object.entries(flags)) {
    if (flag.default !== undefined) texts[name] = flag.default;
  }
  const given = new Set<string>();
  const switches = new Set<string>();
  const problems: string[] = [];
  for (const token of tokens) {
    if (token.kind === "option-terminator") continue;
    if (token.kind === "positional") {
      problems.push(`"${token.value}": expected a flag that starts with --`);
      continue;
    }
    const flag = Object.hasOwn(flags, token.name) ? flags[token.name] : undefined;
    if (flag === undefined) {
      problems.push(`${token.rawName}: there is no such flag, --help lists them all`);
    } else if (flag.argument === undefined) {
      if (token.value === undefined) switches.add(token.name);
      else problems.push(`--${token.name}: takes no value, found "${token.value}"`);
    } else if (token.value === undefined || (!token.inlineValue && token.value.startsWith("--"))) {
      const found = token.value === undefined ? "nothing" : `the flag ${token.value}`;
      problems.push(`--${token.name}: expected ${flag.argument} after it, found ${found}`);
    } else {
      texts[token.name] = token.value;
      given.add(token.name);
    }
  }
  return { texts, given, switches, problems };
}
