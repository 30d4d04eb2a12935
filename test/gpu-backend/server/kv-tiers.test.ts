import { mkdtempSync, readdirSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import {
  ENGINE_START_MS_MAX,
  readText,
  startEngine,
  type TestEngine,
} from "../../support/running-engine.ts";

const TWO_STARTS_MS_MAX = 2 * ENGINE_START_MS_MAX;
const PROMPT = "Once upon a time there was a little fox named Lily who lived by a lake. ".repeat(8);
const OTHER = "One day a bear named Ben went to the market with his friend Tom. ".repeat(24);
/** So many blocks that they are not on disk yet when the answer has come. */
const LONG = OTHER.repeat(2);
const OUTPUT_TOKENS = 12;

let folder: string;
let engine: TestEngine | undefined;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-kv-"));
});
afterEach(async () => {
  await engine?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function complete(prompt: string) {
  if (engine === undefined) throw new Error("No engine runs");
  const body = { prompt, max_tokens: OUTPUT_TOKENS, temperature: 0 };
  const { choices, usage } = await readText(await engine.post("/v1/completions", body));
  return {
    text: choices[0]?.text,
    promptTokens: usage?.prompt_tokens ?? 0,
    cachedTokens: usage?.prompt_tokens_details?.cached_tokens ?? 0,
  };
}

/** The files of blocks that are written to their end, in the one folder of this model. */
function storedFiles(): string[] {
  return readdirSync(folder).flatMap((version) =>
    readdirSync(join(folder, version))
      .filter((name) => !name.endsWith(".partial"))
      .map((name) => join(folder, version, name)),
  );
}

test(
  "what a full pool evicted comes back, and the answer is the same",
  async () => {
    engine = await startEngine(["--kv-blocks", "64", "--kv-host-mib", "64"]);
    const first = await complete(PROMPT);
    expect(first.cachedTokens).toBe(0);
    expect((await complete(OTHER)).promptTokens).toBeGreaterThan(300);
    expect((await complete(`${OTHER} again, and again`)).promptTokens).toBeGreaterThan(300);
    await complete(`Now: ${OTHER}`);
    await complete(`Then: ${OTHER}`);
    const again = await complete(PROMPT);
    expect(again.text).toBe(first.text);
    expect(again.cachedTokens).toBeGreaterThan(first.promptTokens - 17);
    expect(await engine.metric("engine_external_prefix_cache_hits_total")).toBeGreaterThan(0);
    expect(await engine.metric("engine_kv_tier_memory_bytes")).toBeGreaterThan(0);
    expect(await engine.metric("engine_kv_tier_disk_bytes")).toBe(0);
  },
  ENGINE_START_MS_MAX,
);

test(
  "a replica that was started again finds what it had computed, as far as it is sound",
  async () => {
    const flags = ["--kv-host-mib", "64", "--kv-disk", folder, "--kv-disk-mib", "64"];
    engine = await startEngine(flags);
    const first = await complete(LONG);
    const blocks = Math.floor((first.promptTokens - 1) / 16);
    await engine.stop();
    // With what the answer has filled; its last token was never computed.
    expect(storedFiles()).toHaveLength(Math.floor((first.promptTokens + OUTPUT_TOKENS - 1) / 16));

    engine = await startEngine(flags);
    const again = await complete(LONG);
    expect(again).toEqual({ ...first, cachedTokens: 16 * blocks });
    expect(await engine.metric("engine_external_prefix_cache_hits_total")).toBe(16 * blocks);
    expect(await engine.metric("engine_kv_tier_failed_blocks_total")).toBe(0);
    await engine.stop();

    for (const file of storedFiles()) truncateSync(file, 1000);
    engine = await startEngine(flags);
    expect(await complete(LONG)).toEqual(first);
  },
  TWO_STARTS_MS_MAX,
);

test(
  "a folder that is none costs the disk, and the log says so",
  async () => {
    engine = await startEngine(["--kv-host-mib", "8", "--kv-disk", "/dev/null"]);
    expect((await complete(PROMPT)).promptTokens).toBeGreaterThan(100);
    expect(engine.log).toContainEqual(
      expect.objectContaining({
        level: "warn",
        event: "note",
        note: expect.stringMatching(/^The KV tier on disk is given up: ENOTDIR/),
      }),
    );
  },
  ENGINE_START_MS_MAX,
);
