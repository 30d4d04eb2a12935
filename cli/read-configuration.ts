import { createHmac } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import type { LiveConfiguration } from "../src/tenants/live-configuration.ts";
import { parseConfiguration } from "../src/tenants/configuration.ts";
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
  | { readonly kind: "invalid"; readonly problems: readonly FileProblem[] }
> {
  const yaml = parseYaml(await readText(file));
  if (yaml.kind === "invalid") {
    const problems = yaml.faults.map((fault) => ({ file, path: "", ...fault }));
    return { kind: "invalid", problems };
  }
  const { document } = yaml;
  const parsed = parseConfiguration(document.value, options);
  const repeats = document.repeatedKeys.map(({ path, line, firstLine }) => ({
    file,
    line,
    path: formatPath(path),
    message: `the key is there twice: first on line ${firstLine}`,
  }));
  if (parsed.kind === "ok" && repeats.length === 0) {
    const { configuration } = parsed;
    return { kind: "ok", file, configuration, document: document.value, lineOf: document.lineOf };
  }
  const found = parsed.kind === "ok" ? [] : parsed.problems;
  const problems = found.map(({ path, message }) => ({
    file,
    line: document.lineOf(path),
    path: formatPath(path),
    message,
  }));
  const all = [...repeats, ...problems];
  return { kind: "invalid", problems: all.toSorted((a, b) => a.line - b.line) };
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

/**
 * Finds what is allowed and still probably not meant: keys that no gateway takes any more, and answers that
 * are to go on where no server can go on with them.
 */
export function findWarnings(checked: CheckedFile, nowMs: number): readonly FileProblem[] {
  return [...findExpiredKeys(checked, nowMs), ...findVainContinuations(checked)];
}

function findVainContinuations({ file, configuration, lineOf }: CheckedFile): FileProblem[] {
  const engineOf = new Map(configuration.pools.map(({ poolId, engine }) => [poolId, engine]));
  const foreign = new Set(
    configuration.models.flatMap(({ modelId, poolId }) =>
      engineOf.get(poolId) === "openai" ? [modelId] : [],
    ),
  );
  return configuration.tenants.flatMap(({ tenantId, continuation, modelIds }) => {
    const inVain = modelIds.filter((modelId) => foreign.has(modelId));
    if (continuation !== true || inVain.length === 0) return [];
    const path = ["tenants", tenantId, "continuation"];
    const message = `answers of ${inVain.join(", ")} do not go on elsewhere: only replicas of engine sluice can`;
    return [{ file, line: lineOf(path), path: formatPath(path), message }];
  });
}

function findExpiredKeys(
  { file, configuration, lineOf }: CheckedFile,
  nowMs: number,
): FileProblem[] {
  const indexByTenant = new Map<string, number>();
  return configuration.keys.flatMap(({ tenantId, expiresAtMs = Number.POSITIVE_INFINITY }) => {
    // The live keys are those of the file in its order, tenant after tenant.
    const index = indexByTenant.get(tenantId) ?? 0;
    indexByTenant.set(tenantId, index + 1);
    if (nowMs < expiresAtMs) return [];
    const path = ["tenants", tenantId, "keys", index, "expires"];
    const message = "this key has expired already, so requests with it are refused";
    return [{ file, line: lineOf(path), path: formatPath(path), message }];
  });
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
