import * as fc from "fast-check";
import { expect, test } from "vitest";
import { BlockReader } from "../../../gpu-backend/kv-peers/kv-loader.ts";
import { encodeBlock } from "../../../gpu-backend/kv-tiers/kv-block-file.ts";

const BLOCK_BYTES = 24;
const blockOf = (value: number) => new Uint8Array(BLOCK_BYTES).fill(value);
const bodyOf = (values: readonly number[]) =>
  Buffer.concat(values.map((value) => encodeBlock(blockOf(value))));

test("a body gives the same blocks however it is cut, and however they are taken", () => {
  const cuts = fc.array(fc.nat(200), { maxLength: 8 });
  fc.assert(
    fc.property(fc.array(fc.nat(255), { maxLength: 6 }), cuts, fc.nat(6), (values, at, takeAt) => {
      const body = bodyOf(values);
      const reader = new BlockReader(BLOCK_BYTES, values.length);
      const taken: Uint8Array[] = [];
      const bounds = [0, ...at.map((cut) => Math.min(cut, body.length)), body.length];
      for (const [index, end] of bounds.toSorted((a, b) => a - b).entries()) {
        const start = bounds.toSorted((a, b) => a - b)[index - 1] ?? 0;
        expect(reader.push(body.subarray(start, end))).toBe(true);
        if (index !== takeAt) continue;
        const { from, bytes } = reader.take();
        expect(from).toBe(0);
        taken.push(bytes);
      }
      const { from, bytes } = reader.take();
      expect(from * BLOCK_BYTES).toBe(Buffer.concat(taken).length);
      expect(Buffer.concat([...taken, bytes])).toEqual(Buffer.concat(values.map(blockOf)));
      expect(reader.isBetweenBlocks).toBe(true);
    }),
  );
});

test("any byte that is another one is found out, and what came before it is sound", () => {
  fc.assert(
    fc.property(fc.nat(BLOCK_BYTES + 11), fc.integer({ min: 1, max: 255 }), (at, change) => {
      const body = bodyOf([1, 2, 3]);
      const spoilt = BLOCK_BYTES + 12 + at;
      body[spoilt] = (body[spoilt] ?? 0) ^ change;
      const reader = new BlockReader(BLOCK_BYTES, 3);
      expect(reader.push(body)).toBe(false);
      expect(reader.take()).toEqual({ from: 0, bytes: blockOf(1) });
    }),
  );
});

test("no more is taken than was asked for, and half a block is none", () => {
  const reader = new BlockReader(BLOCK_BYTES, 1);
  expect(reader.push(bodyOf([1, 2]))).toBe(false);
  expect(reader.readyBlocks).toBe(1);
  const broken = new BlockReader(BLOCK_BYTES, 2);
  expect(broken.push(bodyOf([1, 2]).subarray(0, -1))).toBe(true);
  expect(broken.readyBlocks).toBe(1);
  expect(broken.isBetweenBlocks).toBe(false);
});
