import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Checkpoint } from "../../../../gpu-backend/engine/model/checkpoint.ts";
import { widen } from "../../../../gpu-backend/engine/model/element-types.ts";
import { ModelError } from "../../../../gpu-backend/engine/model/model-error.ts";

let directory: string;
let path: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "safetensors-"));
  path = join(directory, "model.safetensors");
});
afterAll(() => rm(directory, { recursive: true }));

/** A file with this header, as an object or as text, and so many bytes of values behind it. */
function encode(header: unknown, values: Uint8Array): Buffer {
  const json = Buffer.from(typeof header === "string" ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  return Buffer.concat([length, json, values]);
}

async function withFile<T>(bytes: Uint8Array, use: (checkpoint: Checkpoint) => T): Promise<T> {
  await writeFile(path, bytes);
  const checkpoint = new Checkpoint(directory);
  try {
    return use(checkpoint);
  } finally {
    checkpoint.close();
  }
}

const readOne = (bytes: Uint8Array, shape: readonly number[] = [2]) =>
  withFile(bytes, (checkpoint) => checkpoint.vector(checkpoint.find("w", shape)));

const entry = (dtype: string, shape: number[], start: number, end: number) => ({
  dtype,
  shape,
  data_offsets: [start, end],
});

/** What a half-precision number is worth, by the definition of the format. */
function halfValue(half: number): number {
  const sign = half >> 15 === 1 ? -1 : 1;
  const exponent = (half >> 10) & 31;
  const fraction = half & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

describe("Checkpoint", () => {
  test("every half-precision number is widened exactly, and the first that is none is found", () => {
    const halves = Uint16Array.from({ length: 65_536 }, (_, half) => half);
    const values = new Float32Array(65_536);
    expect(widen(new Uint8Array(halves.buffer), "F16", values)).toBe(31 << 10);
    const expected = Float32Array.from(halves, halfValue);
    expect([...values].findIndex((value, half) => !Object.is(value, expected[half]))).toBe(-1);
  });

  test("a bfloat16 is the upper half of an f32", async () => {
    const numbers = Float32Array.of(1, -2.5, 0.15625, -0, 2 ** 127, 2 ** -130);
    const halves = Uint16Array.from(new Uint32Array(numbers.buffer), (bits) => bits >>> 16);
    const bytes = encode({ w: entry("BF16", [6], 0, 12) }, new Uint8Array(halves.buffer));
    expect(await readOne(bytes, [6])).toEqual(numbers);
  });

  test("an f32 is read as it is, at whatever offset it lies", async () => {
    const header = { other: entry("U8", [3], 0, 3), w: entry("F32", [2], 3, 11) };
    const values = Buffer.alloc(11);
    values.writeFloatLE(1.5, 3);
    values.writeFloatLE(-7, 7);
    expect(await readOne(encode(header, values))).toEqual(Float32Array.of(1.5, -7));
  });

  test("metadata is no tensor", async () => {
    const header = { __metadata__: { format: "pt" }, w: entry("F16", [2], 0, 4) };
    const names = await withFile(encode(header, Buffer.alloc(4)), (file) => [...file.names]);
    expect(names).toEqual(["w"]);
  });

  test.each([
    ["F16", Uint16Array.of(0x3c00, 0x7c00)],
    ["F16", Uint16Array.of(0x3c00, 0xfe01)],
    ["BF16", Uint16Array.of(0x3f80, 0xff80)],
    ["BF16", Uint16Array.of(0x3f80, 0x7fc0)],
    ["F32", Float32Array.of(1, -Infinity)],
    ["F32", Float32Array.of(1, Number.NaN)],
  ])("a weight in %s that is no number is refused with its place: %j", async (type, values) => {
    const bytes = new Uint8Array(values.buffer);
    const file = encode({ w: entry(type, [2], 0, bytes.length) }, bytes);
    await expect(readOne(file)).rejects.toThrow("w is not a number at row 0, column 1");
  });

  const four = Buffer.alloc(4);
  test.each([
    ["nothing", Buffer.alloc(0), "too few for a safetensors file"],
    [
      "a header longer than the file",
      encode(" ", four).fill(0xff, 0, 8),
      "claims 1844674407370955",
    ],
    ["a header that is no JSON", encode("{", four), "(header) is not JSON"],
    ["a header that is no object", encode([], four), "is not a JSON object"],
    [
      "an entry without offsets",
      encode({ w: { dtype: "F16", shape: [2] } }, four),
      "entry w needs",
    ],
    [
      "a negative offset",
      encode({ w: entry("F16", [2], -2, 2) }, four),
      "entry w needs dtype, shape and data_offsets",
    ],
    [
      "a tensor beyond the end",
      encode({ w: entry("F16", [4], 0, 8) }, four),
      "w lies at bytes 0 to 8, expected to start at 0 and to end by 4",
    ],
    [
      "two tensors in one place",
      encode({ v: entry("F16", [2], 0, 4), w: entry("F16", [2], 0, 4) }, four),
      "w lies at bytes 0 to 4, expected to start at 4",
    ],
    ["a hole", encode({ w: entry("F16", [1], 2, 4) }, four), "w lies at bytes 2 to 4"],
    ["bytes of no tensor", encode({ w: entry("F16", [1], 0, 2) }, four), "2 bytes belong to no"],
    [
      "a shape of other size",
      encode({ w: entry("F16", [3], 0, 4) }, four),
      "w has 4 bytes, which is not F16 [3]",
    ],
    ["an unknown element type", encode({ w: entry("I8", [2], 0, 4) }, four), "w is I8; convert"],
    [
      "another shape than expected",
      encode({ w: entry("F16", [1, 2], 0, 4) }, four),
      "w has shape [1, 2], but config.json implies [2]",
    ],
    [
      "another tensor than expected",
      encode({ v: entry("F16", [2], 0, 4) }, four),
      "has no tensor w, which config.json implies",
    ],
  ])("%s is refused in words", async (_what, bytes, reason) => {
    const refused = readOne(bytes);
    await expect(refused).rejects.toThrow(ModelError);
    await expect(refused).rejects.toThrow(reason);
    await expect(refused).rejects.toThrow(path);
  });

  test("a damaged file is refused in words or read, whatever the damage", async () => {
    const whole = encode(
      { v: entry("F16", [2], 0, 4), w: entry("F32", [2], 4, 12) },
      Buffer.alloc(12, 60),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { maxLength: 4 }),
        fc.nat(whole.length),
        async (changes, length) => {
          const bytes = Buffer.from(whole);
          for (const [index, byte] of changes) bytes[index] = byte;
          const outcome = await readOne(bytes.subarray(0, length)).catch((error: unknown) => error);
          expect(outcome instanceof ModelError || outcome instanceof Float32Array).toBe(true);
        },
      ),
      { numRuns: 200 },
    );
  });
});
