import { chmod, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createOnnxExecutor } from "../../../../gpu-backend/engine/executor/onnx-executor.ts";
import {
  randomCheckpoint,
  SMALL_SHAPE,
  writeCheckpoint,
} from "../../../support/random-checkpoint.ts";
import { aBatch } from "./batches.ts";

const SHAPE = { ...SMALL_SHAPE, model_type: "qwen2", tie_word_embeddings: true };

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "kept-"));
  await writeCheckpoint(directory, randomCheckpoint(1, SHAPE), { type: "BF16" });
});
afterEach(async () => {
  await chmod(directory, 0o700);
  await rm(directory, { recursive: true });
});

const keptFile = () => join(directory, ".sluice", "int8-weights.bin");

/** What an engine makes of the directory, in bits. */
async function start(precision: "int8" | "f32" = "int8", keptBytesMin = 0) {
  const executor = await createOnnxExecutor({
    model: directory,
    precision,
    blockTokens: 16,
    blockCount: 4,
    batchTokensMax: 32,
    keptBytesMin,
  });
  const { values } = await executor.run(aBatch([{ tokens: [1, 2, 3, 4, 5], output: "all" }]));
  const logits = Buffer.from(values.slice().buffer).toString("base64");
  await executor.close();
  return { logits, revision: executor.revision, notes: executor.notes };
}

const modifiedAt = async () => (await stat(keptFile())).mtimeMs;

describe("int8 weights beside a checkpoint", () => {
  test("are made by the first start and taken by the second, which computes the same bits", async () => {
    const first = await start();
    expect(await readdir(join(directory, ".sluice"))).toEqual(["int8-weights.bin"]);
    await utimes(keptFile(), 1, 1);
    expect(await start()).toEqual(first);
    expect(await modifiedAt()).toBe(1000);
    expect(first.notes).toEqual([]);
  });

  test("are taken, not made: other values in the file are other logits", async () => {
    const first = await start();
    const bytes = await readFile(keptFile());
    const text = bytes.toString("latin1");
    // With a checksum that fits them, or they would be made anew.
    const { createHash } = await import("node:crypto");
    const rows = SHAPE.hidden_size * (SHAPE.num_attention_heads + 2 * 2) * SHAPE.head_dim;
    const scaleBytes = 4 * (SHAPE.num_attention_heads + 2 * 2) * SHAPE.head_dim;
    const sum = () =>
      createHash("sha256")
        .update(bytes.subarray(0, rows + scaleBytes))
        .digest("hex");
    const before = sum();
    bytes.fill(3, 0, 100);
    bytes.write(sum(), text.indexOf(before), "latin1");
    await writeFile(keptFile(), bytes);
    const second = await start();
    expect(second.logits).not.toBe(first.logits);
    expect(second.revision).toBe(first.revision);
  });

  test.each([0, 0.1, 0.5])(
    "that are damaged at %d of the file are made anew, said, and whole again at the start after",
    async (share) => {
      const first = await start();
      const whole = await readFile(keptFile());
      const damaged = Buffer.from(whole);
      const place = Math.floor(whole.length * share);
      damaged[place] = (damaged[place] ?? 0) ^ 1;
      await writeFile(keptFile(), damaged);
      const second = await start();
      expect(second).toMatchObject({ logits: first.logits, revision: first.revision });
      expect(second.notes.join()).toContain("is damaged");
      expect((await start()).notes).toEqual([]);
      expect(await readFile(keptFile())).toEqual(whole);
    },
  );

  test("that are cut off are made anew", async () => {
    const first = await start();
    const whole = await readFile(keptFile());
    const inFooter = whole.length - 20;
    for (const damaged of [whole.subarray(0, inFooter), whole.subarray(0, 3), Buffer.alloc(0)]) {
      await writeFile(keptFile(), damaged);
      expect(await start()).toEqual(first);
      expect(await readFile(keptFile())).toEqual(whole);
    }
  });

  test("are not those of another checkpoint, configuration or time", async () => {
    const first = await start();
    await writeCheckpoint(directory, randomCheckpoint(2, SHAPE), { type: "BF16" });
    const other = await start();
    expect(other.logits).not.toBe(first.logits);
    expect(other.revision).not.toBe(first.revision);
    await writeCheckpoint(directory, randomCheckpoint(2, { ...SHAPE, rope_theta: 77 }), {
      type: "BF16",
    });
    expect((await start()).logits).not.toBe(other.logits);
    expect(await readdir(join(directory, ".sluice"))).toEqual(["int8-weights.bin"]);
  });

  test.skipIf(process.getuid?.() === 0)("that cannot be written cost a note", async () => {
    await chmod(directory, 0o500);
    const { notes } = await start();
    expect(notes.join()).toContain("Int8 weights are not kept for the next start");
  });

  test("are no file where a file is in the way of their folder", async () => {
    await writeFile(join(directory, ".sluice"), "");
    const { notes } = await start();
    expect(notes).toHaveLength(1);
    expect(notes[0]).toContain("Int8 weights are not kept for the next start");
  });

  test("of a small model or an f32 engine are no file", async () => {
    await start("int8", 1e9);
    await start("f32");
    await expect(readdir(join(directory, ".sluice"))).rejects.toThrow("ENOENT");
  });
});
