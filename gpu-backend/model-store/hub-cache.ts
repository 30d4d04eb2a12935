import { readFileSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";

/** The environment of a process, as far as it says where models are. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The revision that a model has where none is named. */
export const MAIN_REVISION = "main";

const REPOSITORY = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/;
const REVISION = /^[A-Za-z0-9][\w./-]{0,95}$/;
const COMMIT = /^[0-9a-f]{40}$/;

/** Whether a text may be the name of a model on the hub: ORG/NAME, with nothing in it that a path could mean. */
export function isRepositoryName(text: string): boolean {
  return REPOSITORY.test(text) && !text.includes("..") && !text.includes("--");
}

/** Whether a text may be a branch, a tag or a commit. */
export function isRevision(text: string): boolean {
  return REVISION.test(text) && !text.includes("..");
}

/** Where Hugging Face's own libraries keep models, so that nothing is downloaded twice. */
export function hubCacheFolder(environment: Environment): string {
  const { HF_HUB_CACHE: cache, HF_HOME: home } = environment;
  if (cache) return resolve(cache);
  return join(home ? resolve(home) : join(homedir(), ".cache", "huggingface"), "hub");
}

/** The folder of a model in a cache, `models--ORG--NAME`. */
export function repositoryFolder(cacheFolder: string, repository: string): string {
  return join(cacheFolder, `models--${repository.replace("/", "--")}`);
}

/** The model whose folder this is called; undefined for what is no folder of a model. */
export function repositoryOf(folderName: string): string | undefined {
  const [kind, owner, name, ...others] = folderName.split("--");
  if (kind !== "models" || name === undefined || others.length > 0) return undefined;
  const repository = `${owner}/${name}`;
  return isRepositoryName(repository) ? repository : undefined;
}

/** The folder of a model's files at a revision; undefined if it is not in the cache. */
export function snapshotFolder(folder: string, revision: string): string | undefined {
  const commit = COMMIT.test(revision) ? revision : readReference(folder, revision);
  if (commit === undefined) return undefined;
  const snapshot = join(folder, "snapshots", commit);
  return isDirectory(snapshot) ? snapshot : undefined;
}

function readReference(folder: string, revision: string): string | undefined {
  if (!isRevision(revision)) return undefined;
  try {
    const commit = readFileSync(join(folder, "refs", revision), "utf8").trim();
    return COMMIT.test(commit) ? commit : undefined;
  } catch {
    return undefined;
  }
}

/** Where a model is, and what it is called if nobody says otherwise. */
export type LocatedModel =
  | { readonly kind: "located"; readonly directory: string; readonly name: string | undefined }
  | { readonly kind: "missing"; readonly advice: string };

/**
 * Finds a model that a flag names: a directory, or ORG/NAME of what was pulled. A path that is not there
 * is still a path; whoever reads it will say so.
 */
export function locateModel(text: string, environment: Environment): LocatedModel {
  const directory = resolve(text);
  if (!isRepositoryName(text) || isDirectory(directory)) {
    return { kind: "located", directory, name: undefined };
  }
  const folder = repositoryFolder(hubCacheFolder(environment), text);
  const snapshot = snapshotFolder(folder, MAIN_REVISION);
  if (snapshot !== undefined) return { kind: "located", directory: snapshot, name: text };
  return { kind: "missing", advice: `sluice models pull ${text} downloads it` };
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
