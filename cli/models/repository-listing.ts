import * as z from "zod";
import { CommandFailure } from "../command.ts";
import { askHub, causeOf, type HubAccess, refusalOf } from "./hub-client.ts";
import { withRetries } from "./with-retries.ts";

/** One file of a model that we want, and how to tell that it came whole. */
export interface RemoteFile {
  readonly path: string;
  readonly byteLength: number;
  /** What the cache calls the content: SHA-256 of large files, else the id of Git's blob. */
  readonly blobId: string;
  readonly checksum: "sha256" | "git-blob";
}

/** A model at one commit. */
export interface RepositoryListing {
  readonly commit: string;
  readonly files: readonly RemoteFile[];
}

const LISTING_BYTES_MAX = 32 << 20;
const FILE_BYTES_MAX = 2 ** 41;

const Listing = z.object({
  sha: z.string().regex(/^[0-9a-f]{40}$/),
  siblings: z
    .array(
      z.object({
        rfilename: z.string().max(1024),
        size: z.int().min(0).max(FILE_BYTES_MAX).optional(),
        blobId: z
          .string()
          .regex(/^[0-9a-f]{40}$/)
          .optional(),
        lfs: z
          .object({ sha256: z.string().regex(/^[0-9a-f]{64}$/), size: z.int().min(0) })
          .nullish(),
      }),
    )
    .max(100_000),
});

/** What an engine reads, and what a person should: nothing else of a repository is downloaded. */
const WANTED =
  /^(config\.json|generation_config\.json|tokenizer\.json|tokenizer_config\.json|special_tokens_map\.json|chat_template\.jinja|README\.md|LICENSE(\.\w+)?|model\.safetensors(\.index\.json)?|model-\d{5}-of-\d{5}\.safetensors)$/;

/** Lists the files of a model that are wanted. Throws `CommandFailure` if it cannot, or lacks what an engine needs. */
export async function listRepository(
  access: HubAccess,
  repository: string,
  revision: string,
): Promise<RepositoryListing> {
  const path = `/api/models/${repository}/revision/${encodeURIComponent(revision)}?blobs=true`;
  const text = await withRetries(`the list of ${repository}`, access.retryDelayMs, async () => {
    const { response, heard, release } = await askHub(access, path);
    try {
      if (!response.ok) {
        await response.body?.cancel();
        throw refusalOf(response, access, repository) ?? new Error(`status ${response.status}`);
      }
      return await readText(response, heard);
    } finally {
      release();
    }
  });
  return toListing(text, repository);
}

async function readText(response: Response, heard: () => void): Promise<string> {
  const chunks: Uint8Array[] = [];
  let byteLength = 0;
  for await (const chunk of response.body ?? []) {
    heard();
    byteLength += chunk.byteLength;
    if (byteLength > LISTING_BYTES_MAX) throw new CommandFailure("The hub's list has no end");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function toListing(text: string, repository: string): RepositoryListing {
  const { sha: commit, siblings } = parseListing(text, repository);
  const files = siblings.flatMap(({ rfilename: path, size, blobId, lfs }): RemoteFile[] => {
    if (!WANTED.test(path)) return [];
    if (lfs) return [{ path, byteLength: lfs.size, blobId: lfs.sha256, checksum: "sha256" }];
    if (size === undefined || blobId === undefined) return [];
    return [{ path, byteLength: size, blobId, checksum: "git-blob" }];
  });
  // Some repositories have the weights twice, whole and in shards.
  const isWhole = files.some(({ path }) => path === "model.safetensors");
  const wanted = files.filter(({ path }) => !isWhole || !/^model-|\.index\.json$/.test(path));
  const has = (name: RegExp) => wanted.some(({ path }) => name.test(path));
  for (const [name, pattern] of Object.entries(NEEDED)) {
    if (!has(pattern)) {
      throw new CommandFailure(`${repository} has no ${name}, which the engine needs`);
    }
  }
  return { commit, files: wanted.toSorted((a, b) => a.byteLength - b.byteLength) };
}

const NEEDED = {
  "config.json": /^config\.json$/,
  "weights as model.safetensors": /\.safetensors$/,
  "tokenizer.json": /^tokenizer\.json$/,
};

function parseListing(text: string, repository: string): z.infer<typeof Listing> {
  try {
    return Listing.parse(JSON.parse(text));
  } catch (error) {
    const reason = error instanceof z.ZodError ? z.prettifyError(error) : causeOf(error);
    throw new CommandFailure(`The hub's list of ${repository} is not as expected: ${reason}`);
  }
}
