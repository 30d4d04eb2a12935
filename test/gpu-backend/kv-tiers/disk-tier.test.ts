import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { DiskTier, type DiskTierOptions } from "../../../gpu-backend/kv-tiers/disk-tier.ts";
import { fileBytesOf, versionName } from "../../../gpu-backend/kv-tiers/kv-block-file.ts";

const BLOCK_BYTES = 32;

function aFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-kv-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "version");
}

function aTier(options: Partial<DiskTierOptions> & { blocksMax?: number } = {}): DiskTier {
  const { blocksMax = 8, ...others } = options;
  return new DiskTier({
    folder: aFolder(),
    bytesMax: blocksMax * fileBytesOf(BLOCK_BYTES),
    blockBytes: BLOCK_BYTES,
    onFault: (message) => {
      throw new Error(message);
    },
    ...others,
  });
}

const hashOf = (index: number) => `hash-number-${index}`;
const blockOf = (byte: number) => new Uint8Array(BLOCK_BYTES).fill(byte);

/** Stores blocks one after another. */
async function store(tier: DiskTier, indices: readonly number[]): Promise<void> {
  for (const index of indices) {
    tier.put(hashOf(index), blockOf(index));
    await tier.whenIdle();
    tier.checkInvariants();
  }
}

async function foundIn(tier: DiskTier, indices: readonly number[]): Promise<number[]> {
  const found: number[] = [];
  for (const index of indices) {
    const bytes = await tier.get(hashOf(index));
    if (bytes === undefined) continue;
    expect(Uint8Array.from(bytes)).toEqual(blockOf(index));
    found.push(index);
  }
  return found;
}

test("blocks are found again, by another tier in the same folder as well", async () => {
  const folder = aFolder();
  const tier = aTier({ folder });
  await store(tier, [1, 2, 3]);
  expect(await foundIn(tier, [1, 2, 3, 4])).toEqual([1, 2, 3]);
  const next = aTier({ folder });
  expect(next.blockCount).toBe(3);
  expect(await foundIn(next, [1, 2, 3])).toEqual([1, 2, 3]);
});

test("the one unused for longest makes room, and its file is gone", async () => {
  const folder = aFolder();
  const tier = aTier({ folder, blocksMax: 3 });
  await store(tier, [1, 2, 3]);
  tier.touch([hashOf(1), hashOf(2)]);
  await store(tier, [4]);
  expect(await foundIn(tier, [1, 2, 3, 4])).toEqual([1, 2, 4]);
  await store(tier, [5]);
  expect(await foundIn(tier, [1, 2, 4, 5])).toEqual([1, 4, 5]);
  expect(readdirSync(folder)).toHaveLength(3);
  expect(tier.byteLength).toBe(3 * fileBytesOf(BLOCK_BYTES));
});

test("of what a folder has more than may be kept the latest is taken over, the rest is removed", async () => {
  const folder = aFolder();
  await store(aTier({ folder }), [1, 2, 3, 4]);
  for (const index of [1, 2, 3, 4]) utimesSync(join(folder, hashOf(index)), 1000, 1000 - index);
  const next = aTier({ folder, blocksMax: 2 });
  next.checkInvariants();
  expect(await foundIn(next, [1, 2, 3, 4])).toEqual([1, 2]);
  expect(readdirSync(folder)).toHaveLength(2);
});

test.each([
  ["cut short", (path: string) => truncateSync(path, 20)],
  [
    "changed",
    (path: string) => {
      const file = readFileSync(path);
      file[30] = 99;
      writeFileSync(path, file);
    },
  ],
  ["of another kind", (path: string) => writeFileSync(path, new Uint8Array(44))],
  ["removed by somebody", (path: string) => rmSync(path)],
])("a file that was %s holds nothing, and is there no more", async (_, spoil) => {
  const folder = aFolder();
  const tier = aTier({ folder });
  await store(tier, [1, 2]);
  spoil(join(folder, hashOf(1)));
  expect(await foundIn(tier, [1, 2])).toEqual([2]);
  expect(tier.has(hashOf(1))).toBe(false);
  expect(readdirSync(folder)).toEqual([hashOf(2)]);
});

test("what a crash left half written is no block, and is cleared away", async () => {
  const folder = aFolder();
  await store(aTier({ folder }), [1]);
  writeFileSync(join(folder, `${hashOf(2)}.partial`), "half");
  writeFileSync(join(folder, hashOf(3)), "short");
  writeFileSync(join(folder, "an operator's note.txt"), "not ours");
  const next = aTier({ folder });
  expect(next.blockCount).toBe(1);
  expect(await foundIn(next, [1, 2, 3])).toEqual([1]);
  await expect.poll(() => readdirSync(folder)).toEqual(["an operator's note.txt", hashOf(1)]);
});

test("is nobody's but this user's", async () => {
  const folder = aFolder();
  await store(aTier({ folder }), [1]);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(statSync(join(folder, hashOf(1))).mode & 0o777).toBe(0o600);
});

test("what waits to be written is bounded; what comes on top is not stored", async () => {
  const blockBytes = 2 ** 24;
  const tier = aTier({ blockBytes, bytesMax: 100 * fileBytesOf(blockBytes) });
  expect(tier.writesLeft).toBe(4);
  const bytes = new Uint8Array(blockBytes);
  for (let index = 0; index < 6; index += 1) {
    tier.put(hashOf(index), bytes);
    tier.checkInvariants();
  }
  expect(tier.writesLeft).toBe(0);
  expect(tier.wants(hashOf(3))).toBe(false);
  await tier.whenIdle();
  expect(tier.blockCount).toBe(4);
  expect(tier.writesLeft).toBe(4);
});

test("what is cleared while it is written is gone", async () => {
  const folder = aFolder();
  const tier = aTier({ folder });
  await store(tier, [1]);
  tier.put(hashOf(2), blockOf(2));
  tier.put(hashOf(3), blockOf(3));
  tier.clear();
  await tier.whenIdle();
  expect(tier.blockCount).toBe(0);
  await expect.poll(() => readdirSync(folder)).toEqual([]);
});

test("a disk that cannot be written to is given up, told once, and what is there is still read", async () => {
  const folder = aFolder();
  const faults: string[] = [];
  const tier = aTier({ folder, onFault: (message) => faults.push(message) });
  await store(tier, [1]);
  const kept = readFileSync(join(folder, hashOf(1)));
  rmSync(folder, { recursive: true });
  await store(tier, [2, 3, 4, 5, 6, 7, 8]);
  expect(faults).toEqual([]);
  aTier({ folder });
  await store(tier, [12]);
  rmSync(folder, { recursive: true });
  await store(tier, [2, 3, 4, 5, 6, 7, 8]);
  expect(faults).toEqual([]);
  await store(tier, [9, 10, 11]);
  expect(faults).toEqual([expect.stringContaining("ENOENT")]);
  expect(tier.isWritable).toBe(false);
  expect(tier.writesLeft).toBe(0);
  aTier({ folder });
  writeFileSync(join(folder, hashOf(1)), kept);
  expect(await foundIn(tier, [1, 9])).toEqual([1]);
});

test("a folder that cannot be one is told of at once, and stores nothing", async () => {
  const folder = join(aFolder(), "..", "file");
  writeFileSync(folder, "in the way");
  const faults: string[] = [];
  const tier = aTier({ folder, onFault: (message) => faults.push(message) });
  expect(faults).toHaveLength(1);
  await store(tier, [1]);
  expect(tier.blockCount).toBe(0);
});

test("a version is another one where anything in it is", () => {
  const version = { modelRevision: "a", blockTokens: 16, blockBytes: 32 };
  const names = [
    version,
    { ...version, modelRevision: "b" },
    { ...version, blockTokens: 32 },
    { ...version, blockBytes: 64 },
  ].map(versionName);
  expect(new Set(names).size).toBe(4);
  expect(names[0]).toMatch(/^[\w-]{22}$/);
});

test.runIf(existsSync("/proc/self"))(
  "a folder that the system makes for nobody is a fault at once",
  () => {
    const faults: string[] = [];
    aTier({ folder: "/proc/sluice/version", onFault: (message) => faults.push(message) });
    expect(faults).toEqual([expect.stringContaining("ENOENT")]);
  },
);
