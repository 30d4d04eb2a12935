import { expect, test } from "vitest";
import { MaskMemory } from "../../../../gpu-backend/engine/structured/mask-memory.ts";

test("a mask is ready once it was published, and not before", () => {
  const memory = new MaskMemory({ logitCount: 40 });
  const writer = new MaskMemory(memory.buffer);
  expect(memory.await(1, 0)).toBe("timed-out");
  writer.write(Int32Array.of(5, 1), 40);
  writer.publish();
  expect(memory.await(1, 0)).toBe("ready");
  expect([...memory.mask]).toEqual([5, 1]);
  expect(memory.await(2, 0)).toBe("timed-out");
});

test("bits beyond the logits are left out", () => {
  for (const [logitCount, expected] of [
    [33, [-1, 1]],
    [63, [-1, 0x7fffffff]],
    [64, [-1, -1]],
  ] as const) {
    const memory = new MaskMemory({ logitCount });
    memory.write(Int32Array.of(-1, -1, -1), logitCount);
    expect([...memory.mask]).toEqual(expected);
  }
});

test("whoever waits when no mask can follow is told so", () => {
  const memory = new MaskMemory({ logitCount: 1 });
  new MaskMemory(memory.buffer).breakOff();
  expect(memory.await(1, 1000)).toBe("broken");
});
