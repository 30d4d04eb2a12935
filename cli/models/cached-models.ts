import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import {
  MAIN_REVISION,
  repositoryFolder,
  repositoryOf,
  snapshotFolder,
} from "../../gpu-backend/model-store/hub-cache.ts";

/** A model in the cache. */
export interface CachedModel {
  readonly repository: string;
  readonly folder: string;
  /** Branches and tags that were pulled, each with its commit. */
  readonly revisions: Readonly<Record<string, string>>;
  /** Of all contents, parts of them among these. */
  readonly byteLength: number;
  /** Whether there is something to serve. */
  readonly isComplete: boolean;
}

/** Finds all models in a cache, by name. */
export function listCachedModels(cacheFolder: string): CachedModel[] {
  return namesIn(cacheFolder)
    .flatMap((name) => repositoryOf(name) ?? [])
    .toSorted()
    .flatMap((repository) => findCachedModel(cacheFolder, repository) ?? []);
}

export function findCachedModel(cacheFolder: string, repository: string): CachedModel | undefined {
  const folder = repositoryFolder(cacheFolder, repository);
  if (!existsSync(folder)) return undefined;
  const references = join(folder, "refs");
  const revisions = Object.fromEntries(
    namesIn(references).flatMap((name) => {
      const snapshot = snapshotFolder(folder, name);
      return snapshot === undefined
        ? []
        : [[name, readFileSync(join(references, name), "utf8").trim()]];
    }),
  );
  const blobs = join(folder, "blobs");
  const byteLength = namesIn(blobs).reduce((sum, name) => {
    return sum + (statSync(join(blobs, name), { throwIfNoEntry: false })?.size ?? 0);
  }, 0);
  const snapshot = snapshotFolder(folder, MAIN_REVISION);
  const files = snapshot === undefined ? [] : namesIn(snapshot);
  const isComplete = files.includes("config.json") && files.some((n) => n.endsWith(".safetensors"));
  return { repository, folder, revisions, byteLength, isComplete };
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
