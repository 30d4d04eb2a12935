import { createHmac } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import type { LiveConfiguration } from "../src/tenants/live-configuration.ts";
import { parseConfiguration } from "../src/tenants/configuration.ts";
import type { ConfigurationProblem } from "../src/tenants/configuration-problems.ts";
import { findConfigurationWarnings } from "../src/tenants/configuration-warnings.ts";
import { formatPath } from "../src/tenants/references.ts";
import { CommandFailure, messageOf } from "./command.ts";
import type { DocumentPath } from "./yaml-document.ts";
import { parseYaml } from "./yaml-document.ts";

/** One thing that is wrong with a configuration file. */
export interface FileProblem {
  readonly file: string;
  readonly line: number;
  /** `tenants.acme.class`; empty where the text is not even YAML. */
  readonly path: string;
  readonly message: string;
}

/** A configuration file that was read and found right. */
export interface CheckedFile {
  readonly file: string;
  readonly configuration: LiveConfiguration;
  /** The document as the file has it: keys in plain text, units unresolved. */
  readonly document: unknown;
  readonly lineOf: (path: DocumentPath) => number;
  /** What is allowed and still probably not meant. */
  readonly warnings: readonly FileProblem[];
}

/** What the file's rules and its keys' hashes depend on. */
export interface ReadOptions {
  /** `local` alone allows keys in plain text. */
  readonly mode: "local" | "production";
  /** Hashes a plain key as the gateway will. */
  readonly hashKey: (key: string) => string;
}

const FILE_BYTES_MAX = 33_554_432;

/**
 * Reads and checks a `sluice.yaml`. A file that is not right yields every problem of it at once; one
 * that cannot be read throws `CommandFailure`.
 */
export async function readConfigurationFile(
  file: string,
  options: ReadOptions,
): Promise<
  | ({ readonly kind: "ok" } & CheckedFile)
  | {
      readonly kind: "invalid";
      readonly problems: readonly FileProblem[];
      readonly warnings: readonly FileProblem[];
    }
> {
  const yaml = parseYaml(await readText(file));
  if (yaml.kind === "invalid") {
    const problems = yaml.faults.map((fault) => ({ file, path: "", ...fault }));
    return { kind: "invalid", problems, warnings: [] };
  }
  const { document } = yaml;
  const parsed = parseConfiguration(document.value, options);
  const inFile = ({ path, message }: ConfigurationProblem): FileProblem => ({
    file,
    line: document.lineOf(path),
    path: formatPath(path),
    message,
  });
  const warnings = findConfigurationWarnings(document.value, Date.now()).map(inFile);
  const repeats = document.repeatedKeys.map(({ path, line, firstLine }) => ({
    file,
    line,
    path: formatPath(path),
    message: `the key is there twice: first on line ${firstLine}`,
  }));
  if (parsed.kind === "ok" && repeats.length === 0) {
    const { configuration } = parsed;
    const { value, lineOf } = document;
    return { kind: "ok", file, configuration, document: value, lineOf, warnings };
  }
  const found = parsed.kind === "ok" ? [] : parsed.problems;
  const problems = [...repeats, ...found.map(inFile)].toSorted((a, b) => a.line - b.line);
  return { kind: "invalid", problems, warnings };
}

/** Like `readConfigurationFile`, for those who cannot go on without the file: throws its problems. */
export async function requireConfigurationFile(
  file: string,
  options: ReadOptions,
): Promise<CheckedFile> {
  const read = await readConfigurationFile(file, options);
  if (read.kind === "ok") return read;
  throw new CommandFailure(read.problems.map(formatProblem).join("\n"));
}

/** `sluice.yaml:12 tenants.acme.class: expected …, found …` */
export function formatProblem({ file, line, path, message }: FileProblem): string {
  return `${file}:${line}${path === "" ? "" : ` ${path}`}: ${message}`;
}

/** Hashes an API key as the gateway does: HMAC-SHA-256 under the pepper, 64 hex digits. */
export function keyHasher(pepper: string): (key: string) => string {
  return (key) => createHmac("sha256", pepper).update(key).digest("hex");
}

async function readText(file: string): Promise<string> {
  try {
    const { size } = await stat(file);
    if (size > FILE_BYTES_MAX) {
      throw new CommandFailure(
        `${file}: expected at most ${FILE_BYTES_MAX} bytes of configuration, found ${size}`,
      );
    }
    return await readFile(file, "utf8");
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    throw new CommandFailure(`Cannot read the configuration file: ${messageOf(error)}`);
  }
}
