import { createHmac, randomBytes } from "node:crypto";
import * as z from "zod";
import { API_KEY_SECRET_BYTES } from "../../src/tenants/api-key.ts";
import { checksumOf, makeApiKey, splitApiKey } from "../../src/tenants/api-key.ts";
import { API_KEY_NOTATION, parseApiKey } from "../../src/tenants/configuration-file.ts";
import { NAME_NOTATION, parseName } from "../../src/tenants/name.ts";
import type { Command, Terminal } from "../command.ts";
import { CommandFailure, EXIT_CODES, WrongUse } from "../command.ts";
import { FLAG_HELP, flagSwitch, parseWords, toHelpLines } from "../flags.ts";
import { keyHasher } from "../read-configuration.ts";
import { requireSecret } from "../require-secret.ts";
import { findLocalRun } from "../run-file.ts";
import { SECRET_LENGTH_MIN } from "../../src/protocol/secret-length.ts";

const FLAGS = z.object({
  name: z
    .string()
    .refine((name) => parseName(name) !== undefined, `Expected ${NAME_NOTATION}`)
    .optional()
    .register(FLAG_HELP, {
      valueName: "NAME",
      meaning: "Print the whole entry of a tenant's keys, under this name",
    }),
  stdin: flagSwitch("Hash the key that stdin gives instead of making one"),
  local: flagSwitch(`Hash for the gateway that "sluice up" runs in this folder`),
  json: flagSwitch("Print the result as one JSON object"),
});

const STDIN_CHARACTERS_MAX = 4096;

/** `sluice hash-key`: makes an API key, or takes one, and prints the hash that a file holds of it. */
export const hashKeyCommand: Command = {
  name: "hash-key",
  synopsis: "[flags]",
  summary: "Make an API key and the hash of it for a configuration file",
  help: `Makes a new API key and prints it once, with the hash that a tenant's keys hold in its place. A key
that is there already comes through stdin, never as a word of the command line: shells keep those.

${toHelpLines(FLAGS)}

Environment:
  SLUICE_KEY_PEPPER   The gateway's pepper; with --local that of the run in this folder otherwise`,
  run: runHashKey,
};

async function runHashKey(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, Number.POSITIVE_INFINITY);
  // The word is probably a key, so it must not be repeated here either.
  if (positionals.length > 0) throw new WrongUse("Expected no word: give a key with --stdin");
  const run = flags.local ? findLocalRun(process.cwd()) : undefined;
  const pepper = requireSecret("SLUICE_KEY_PEPPER", run);
  // The gateway takes no such pepper, so a hash under it would open nothing.
  if (pepper.length < SECRET_LENGTH_MIN) {
    throw new CommandFailure(
      `SLUICE_KEY_PEPPER: expected ${SECRET_LENGTH_MIN} characters or more, found ${pepper.length}`,
    );
  }
  const hmac = (text: string) => createHmac("sha256", pepper).update(text).digest("base64url");
  const secret = randomBytes(API_KEY_SECRET_BYTES).toString("base64url");
  const key = flags.stdin ? await readKey() : makeApiKey(secret, hmac);
  const parts = splitApiKey(key);
  if (parts === undefined || parts.checksum !== checksumOf(parts.body, hmac)) {
    terminal.complain("Warning: only a local gateway takes a key that sluice has not made");
  }
  const hash = `hmac-sha256:${keyHasher(pepper)(key)}`;
  const { name } = flags;
  if (flags.json) {
    terminal.print(JSON.stringify({ name, ...(!flags.stdin && { key }), hash }));
    return EXIT_CODES.ok;
  }
  if (!flags.stdin) terminal.print(`New key, shown only this once: ${key}`);
  terminal.print(name === undefined ? `hash: "${hash}"` : `- { name: "${name}", hash: "${hash}" }`);
  return EXIT_CODES.ok;
}

async function readKey(): Promise<string> {
  let text = "";
  for await (const piece of process.stdin.setEncoding("utf8")) {
    text += piece;
    if (text.length > STDIN_CHARACTERS_MAX) break;
  }
  const key = parseApiKey(text.replace(/\r?\n$/, ""));
  if (key === undefined) {
    throw new CommandFailure(`Expected ${API_KEY_NOTATION} on stdin, found something else`);
  }
  return key;
}
