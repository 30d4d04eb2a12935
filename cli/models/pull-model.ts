import { mkdir, readFile, rename, rm, statfs, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parseModelConfig } from "../../gpu-backend/engine/model/model-config.ts";
import { ModelError } from "../../gpu-backend/engine/model/model-error.ts";
import { repositoryFolder } from "../../gpu-backend/model-store/hub-cache.ts";
import { CommandFailure } from "../command.ts";
import { bytesText } from "./bytes-text.ts";
import { downloadFile } from "./download-file.ts";
import type { HubAccess } from "./hub-client.ts";
import { lockFolder } from "./pull-lock.ts";
import { listRepository, type RemoteFile, type RepositoryListing } from "./repository-listing.ts";

/** What is to be pulled, and where to. */
export interface PullOptions {
  readonly repository: string;
  readonly revision: string;
  readonly cacheFolder: string;
  /** Whether to download what the engine will refuse. */
  readonly isForced: boolean;
  readonly onProgress: (progress: PullProgress) => void;
}

export interface PullProgress {
  readonly path: string;
  readonly doneBytes: number;
  readonly totalBytes: number;
}

export interface PulledModel {
  readonly commit: string;
  readonly directory: string;
  readonly byteLength: number;
}

/** What a disk should have left when all is there. */
const DISK_BYTES_SPARE = 64 << 20;

/**
 * Pulls a model into the cache: first its list, then its configuration, then, if the engine computes such
 * a model and the disk has room, the rest. Throws `CommandFailure`; what had come is not lost.
 */
export async function pullModel(access: HubAccess, options: PullOptions): Promise<PulledModel> {
  const listing = await listRepository(access, options.repository, options.revision);
  const folder = repositoryFolder(options.cacheFolder, options.repository);
  await mkdir(folder, { recursive: true });
  const unlock = await lockFolder(folder);
  try {
    return await pullFiles(access, listing, folder, options);
  } finally {
    await unlock();
  }
}

async function pullFiles(
  access: HubAccess,
  listing: RepositoryListing,
  folder: string,
  options: PullOptions,
): Promise<PulledModel> {
  const { repository, revision } = options;
  const blobFolder = join(folder, "blobs");
  const directory = join(folder, "snapshots", listing.commit);
  await mkdir(blobFolder, { recursive: true });
  await mkdir(directory, { recursive: true });

  const totalBytes = listing.files.reduce((sum, { byteLength }) => sum + byteLength, 0);
  let doneBytes = 0;
  const bring = async (file: RemoteFile) => {
    const onBytes = (byteCount: number) => {
      doneBytes += byteCount;
      options.onProgress({ path: file.path, doneBytes, totalBytes });
    };
    const target = { repository, commit: listing.commit, blobFolder, onBytes };
    await downloadFile(access, file, target);
    await link(join(directory, file.path), file.blobId);
  };
  const [config, others] = configFirst(listing);
  await bring(config);
  if (!options.isForced) await requireSupported(join(directory, config.path), repository);
  await requireRoom(blobFolder, totalBytes - doneBytes);
  for (const file of others) await bring(file);
  // Last, since whoever finds the reference expects all of the files.
  await writeReference(join(folder, "refs", revision), listing.commit);
  return { commit: listing.commit, directory, byteLength: totalBytes };
}

function configFirst({ files }: RepositoryListing): [RemoteFile, readonly RemoteFile[]] {
  const config = files.find(({ path }) => path === "config.json");
  if (config === undefined) throw new CommandFailure("The model has no config.json");
  return [config, files.filter((file) => file !== config)];
}

async function requireSupported(path: string, repository: string): Promise<void> {
  try {
    parseModelConfig(await readFile(path, "utf8"), `${repository}/config.json`);
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    throw new CommandFailure(`${error.message}; --force downloads it all the same`);
  }
}

async function requireRoom(folder: string, neededBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const freeBytes = bavail * bsize;
  if (neededBytes + DISK_BYTES_SPARE <= freeBytes) return;
  throw new CommandFailure(
    `${bytesText(neededBytes)} are still to come, but the disk of ${folder} has ${bytesText(freeBytes)} left; HF_HOME or HF_HUB_CACHE names another`,
  );
}

/** Puts a content under its name, in one step, whatever was there before. */
async function link(path: string, blobId: string): Promise<void> {
  const temporary = `${path}.${process.pid}.link`;
  await rm(temporary, { force: true });
  await symlink(join("..", "..", "blobs", blobId), temporary);
  await rename(temporary, path);
}

async function writeReference(path: string, commit: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.new`;
  await writeFile(temporary, commit);
  await rename(temporary, path);
}
