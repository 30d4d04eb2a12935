import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { loadModel } from "../../../../gpu-backend/engine/model/load-model.ts";
import { readWhole } from "../../../../gpu-backend/engine/model/matrix.ts";
import { ModelError } from "../../../../gpu-backend/engine/model/model-error.ts";
import {
  encodeSafetensors,
  randomCheckpoint,
  SMALL_SHAPE,
  writeCheckpoint,
} from "../../../support/random-checkpoint.ts";

const CHECKPOINT = randomCheckpoint(1, SMALL_SHAPE);
const FIRST_SHARD = "model-00001-of-00003.safetensors";
const LAST_SHARD = "model-00003-of-00003.safetensors";
const INDEX = "model.safetensors.index.json";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "hostile-"));
  await writeCheckpoint(directory, CHECKPOINT, { type: "BF16", shards: 3 });
});
afterEach(() => rm(directory, { recursive: true }));

const pathOf = (name: string) => join(directory, name);

/** Reads all there is, as loading does; the message of the refusal, without the directory. */
async function refusal(): Promise<string> {
  const outcome = await readAll().catch((error: unknown) => error);
  if (!(outcome instanceof ModelError)) throw new Error(`not refused in words: ${String(outcome)}`);
  expect(outcome.message).toContain(directory);
  expect(outcome.message).not.toContain("\n");
  return outcome.message.replaceAll(`${directory}/`, "");
}

async function readAll(): Promise<number> {
  const model = await loadModel(directory);
  try {
    return readWhole(model.embedding).length + readWhole(model.head).length;
  } finally {
    model.close();
  }
}

async function changeIndex(change: (weights: Record<string, unknown>) => void): Promise<void> {
  const index: unknown = JSON.parse(await readFile(pathOf(INDEX), "utf8"));
  const weights: unknown = Reflect.get(Object(index), "weight_map");
  change(Object(weights));
  await writeFile(pathOf(INDEX), JSON.stringify(index));
}

/** Another header before the same values. */
async function changeHeader(
  file: string,
  change: (
    header: Record<string, { dtype: string; shape: number[]; data_offsets: number[] }>,
  ) => void,
): Promise<void> {
  const bytes = await readFile(pathOf(file));
  const end = 8 + Number(bytes.readBigUInt64LE());
  const header: unknown = JSON.parse(bytes.toString("utf8", 8, end));
  change(Object(header));
  await writeFile(pathOf(file), encodeSafetensors(header, bytes.subarray(end)));
}

describe("a checkpoint in shards", () => {
  test("is read whole", async () => {
    expect(await readAll()).toBe(2 * SMALL_SHAPE.vocab_size * SMALL_SHAPE.hidden_size);
  });

  test("may lie behind links, as the Hugging Face cache keeps it", async () => {
    await mkdir(pathOf("blobs"));
    await rm(pathOf("config.json"));
    await writeFile(pathOf("blobs/1"), JSON.stringify(CHECKPOINT.config));
    await symlink("blobs/1", pathOf("config.json"));
    expect(await readAll()).toBeGreaterThan(0);
  });

  test.each([
    "../outside.safetensors",
    "/etc/passwd",
    "sub/model.safetensors",
    ".safetensors",
    7,
    "",
  ])("whose index names %j is refused before that is opened", async (name) => {
    await changeIndex((weights) => (weights["model.norm.weight"] = name));
    const expected = "expected the name of a .safetensors file beside the index";
    expect(await refusal()).toContain(expected);
  });

  test("that lacks a file is refused with its name", async () => {
    await rm(pathOf(LAST_SHARD));
    expect(await refusal()).toContain(`Cannot read ${LAST_SHARD}`);
  });

  test("whose index places a tensor in the wrong file is refused", async () => {
    await changeIndex((weights) => (weights["model.embed_tokens.weight"] = LAST_SHARD));
    expect(await refusal()).toContain(`model.embed_tokens.weight is not in ${LAST_SHARD}`);
  });

  test("whose index lacks a tensor finds it all the same, unless no file has it", async () => {
    await changeIndex((weights) => delete weights["model.norm.weight"]);
    expect(await readAll()).toBeGreaterThan(0);
  });

  test.each(["[]", "{}", '{"weight_map": []}', "{", "7"])(
    "with the index %j is refused",
    async (json) => {
      await writeFile(pathOf(INDEX), json);
      expect(await refusal()).toMatch(/weight_map|is not JSON/);
    },
  );

  test("cut off anywhere is refused with what is missing", async () => {
    const { length } = await readFile(pathOf(FIRST_SHARD));
    for (const size of [length - 1, Math.floor(length / 2), 200, 7, 0]) {
      await truncate(pathOf(FIRST_SHARD), size);
      expect(await refusal()).toMatch(/cut off|too few|ended at/);
    }
  });
});

describe("a header", () => {
  test.each([
    ["claims exabytes", 2n ** 62n],
    ["claims more than the file has", 1n << 40n],
    ["claims nearly all of a sparse file", 1n << 33n],
  ])("that %s allocates nothing of the sort", async (_what, claimed) => {
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(claimed);
    await writeFile(pathOf(FIRST_SHARD), length);
    // A file may be as long as it likes without taking up any disk.
    await truncate(pathOf(FIRST_SHARD), 2 ** 34);
    const before = process.memoryUsage().arrayBuffers;
    expect(await refusal()).toContain(`the header claims ${claimed} bytes, but at most`);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 << 20);
  });

  test("that claims a tensor of exabytes is refused by the size of the file", async () => {
    await changeHeader(FIRST_SHARD, (header) => {
      const [name] = Object.keys(header)
        .filter((key) => key !== "__metadata__")
        .slice(-1);
      const last = header[name ?? ""];
      if (last !== undefined) last.data_offsets[1] = Number.MAX_SAFE_INTEGER;
    });
    expect(await refusal()).toMatch(/lies at bytes \d+ to 9007199254740991, expected .* to end by/);
  });

  test("of more tensors than any model has is refused", async () => {
    const names = Array.from({ length: 100_001 }, (_, index) => [`${index}`, 0] as const);
    const header = JSON.stringify(Object.fromEntries(names));
    await writeFile(pathOf(FIRST_SHARD), encodeSafetensors(header, Buffer.alloc(4)));
    expect(await refusal()).toBe(`${FIRST_SHARD} has 100001 tensors, more than 100000`);
  });

  test("with overlapping tensors is refused", async () => {
    await changeHeader(FIRST_SHARD, (header) => {
      for (const [name, entry] of Object.entries(header)) {
        if (name !== "__metadata__") entry.data_offsets = [0, entry.data_offsets[1] ?? 0];
      }
    });
    expect(await refusal()).toContain("expected to start at");
  });

  test.each([
    ["another element type", { dtype: "F8_E4M3" }, "is F8_E4M3; convert the checkpoint"],
    ["the wrong element type", { dtype: "F32" }, "which is not F32"],
    ["another shape", { shape: [54, 67] }, "has shape [54, 67], but config.json implies [67, 54]"],
    ["a shape of nothing", { shape: [0, 54] }, "which is not BF16 [0, 54]"],
    ["a shape that overflows", { shape: [2 ** 40, 2 ** 40] }, "which is not BF16"],
    ["no shape", { shape: "many" }, "needs dtype, shape and data_offsets"],
  ])("with %s is refused", async (_what, change, reason) => {
    await changeHeader(FIRST_SHARD, (header) => {
      Object.assign(header["model.embed_tokens.weight"] ?? {}, change);
    });
    expect(await refusal()).toContain(reason);
  });

  test("nested without end is refused in words", async () => {
    await writeFile(pathOf(FIRST_SHARD), encodeSafetensors("[".repeat(1 << 20), Buffer.alloc(4)));
    expect(await refusal()).toContain("(header) is not JSON");
  });
});

describe("other files", () => {
  test("weights that are no numbers are refused by name and place", async () => {
    const bytes = await readFile(pathOf(FIRST_SHARD));
    const start = 8 + Number(bytes.readBigUInt64LE());
    bytes.writeUInt16LE(0x7fc0, start + 2 * (54 * 3 + 5));
    await writeFile(pathOf(FIRST_SHARD), bytes);
    expect(await refusal()).toBe(
      `${FIRST_SHARD}: model.embed_tokens.weight is not a number at row 3, column 5; the checkpoint is damaged`,
    );
  });

  test("a configuration larger than any is not read", async () => {
    await truncate(pathOf("config.json"), 2 ** 34);
    expect(await refusal()).toContain("config.json has 17179869184 bytes, expected at most");
  });

  test("nor is an index", async () => {
    await truncate(pathOf(INDEX), 2 ** 24 + 1);
    expect(await refusal()).toContain(`${INDEX} has 16777217 bytes, expected at most 16777216`);
  });

  test("a directory in the place of weights is refused", async () => {
    await rm(pathOf(FIRST_SHARD));
    await mkdir(pathOf(FIRST_SHARD));
    expect(await refusal()).toContain(`Cannot read ${FIRST_SHARD}: expected a file`);
  });

  test.skipIf(process.platform === "win32")(
    "a pipe in the place of weights hangs nobody",
    async () => {
      await rm(pathOf(FIRST_SHARD));
      execFileSync("/usr/bin/env", ["mkfifo", pathOf(FIRST_SHARD)]);
      expect(await refusal()).toContain(`Cannot read ${FIRST_SHARD}: expected a file`);
    },
  );

  test("an architecture that is not computed is refused before weights are opened", async () => {
    await rm(pathOf(INDEX));
    await rm(pathOf(FIRST_SHARD));
    await writeFile(pathOf("config.json"), JSON.stringify({ model_type: "gemma2" }));
    expect(await refusal()).toContain('model_type "gemma2" asks for soft-capped logits');
  });
});
