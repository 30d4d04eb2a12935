import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, readdirSync, statSync } from "node:fs";
import {
  lstat,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  truncate,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { hubAccessOf } from "../../../cli/models/hub-client.ts";
import { ProgressBar } from "../../../cli/models/progress-bar.ts";
import { pullModel } from "../../../cli/models/pull-model.ts";
import { locateModel } from "../../../gpu-backend/model-store/hub-cache.ts";
import { loadModel } from "../../../gpu-backend/engine/model/load-model.ts";
import { randomCheckpoint, SMALL_SHAPE, writeCheckpoint } from "../../support/random-checkpoint.ts";
import { runRecorded } from "../support/recorded-terminal.ts";
import { COMMIT, StandInHub } from "./stand-in-hub.ts";

const CONFIG = JSON.stringify(SMALL_SHAPE);
const PROGRAM = fileURLToPath(new URL("../../../cli/sluice.mjs", import.meta.url));
/** A program starts within it on a machine that many share. */
const WAIT = { timeout: 50_000, interval: 20 };
/** More than the attempts at what brings nothing. */
const CUTS = 8;
const WEIGHTS = await checkpointBytes();
const FILES = {
  "config.json": CONFIG,
  "tokenizer.json": "{}",
  "tokenizer_config.json": "{ }",
  "model.safetensors": WEIGHTS,
  "pytorch_model.bin": "never",
  "original/params.json": "never",
  "../outside.json": "never",
  ".gitattributes": "never",
};

let folder: string;
let hub: StandInHub;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "models-"));
  hub = await StandInHub.start(FILES);
  vi.stubEnv("HF_ENDPOINT", hub.url);
  vi.stubEnv("HF_HUB_CACHE", folder);
  vi.stubEnv("HF_TOKEN", "");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await hub.stop();
  await rm(folder, { recursive: true });
});

async function checkpointBytes(): Promise<Buffer> {
  const directory = await mkdtemp(join(tmpdir(), "weights-"));
  await writeCheckpoint(directory, randomCheckpoint(1, SMALL_SHAPE));
  const bytes = await readFile(join(directory, "model.safetensors"));
  await rm(directory, { recursive: true });
  return bytes;
}

const repository = () => join(folder, "models--org--model");
const snapshot = () => join(repository(), "snapshots", COMMIT);
const sluice = (...words: string[]) => runRecorded("models", ...words);
const pull = (...flags: string[]) => sluice("pull", "org/model", ...flags);
/** Of all files that are not whole yet. */
const savedBytes = () => {
  const blobs = join(repository(), "blobs");
  const parts = readdirSync(blobs).filter((name) => name.endsWith(".incomplete"));
  return parts.reduce((sum, name) => sum + statSync(join(blobs, name)).size, 0);
};
/** Pulls without the patience that a real network needs. */
const pullSoon = (changes: { readonly silenceMsMax?: number } = {}) =>
  pullModel(
    { ...hubAccessOf(process.env), retryDelayMs: 1, ...changes },
    {
      repository: "org/model",
      revision: "main",
      cacheFolder: folder,
      isForced: false,
      onProgress: () => {},
    },
  );
const requestsOf = (name: string) => hub.seen.filter(({ path }) => path.endsWith(name));

async function expectWhole(): Promise<void> {
  expect(await readFile(join(snapshot(), "model.safetensors"))).toEqual(WEIGHTS);
  expect(await readFile(join(repository(), "refs/main"), "utf8")).toBe(COMMIT);
  const blobs = await readdir(join(repository(), "blobs"));
  expect(blobs.filter((name) => name.includes("incomplete"))).toEqual([]);
  expect(blobs).toHaveLength(4);
}

describe("sluice models pull", () => {
  test("lays files out as Hugging Face's own libraries do, and only those that are wanted", async () => {
    const run = await pull();
    expect(run).toMatchObject({ exitCode: 0, stderr: "" });
    expect(run.stdout).toContain("sluice up --model org/model");
    await expectWhole();
    expect((await readdir(snapshot())).toSorted()).toEqual(
      ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"].toSorted(),
    );
    const weights = join(snapshot(), "model.safetensors");
    expect((await lstat(weights)).isSymbolicLink()).toBe(true);
    expect(await readlink(weights)).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
    expect(await readlink(join(snapshot(), "config.json"))).toMatch(/\/blobs\/[0-9a-f]{40}$/);
    (await loadModel(snapshot())).close();
  });

  test("is done at once where all is there", async () => {
    await pull();
    hub.seen.length = 0;
    expect((await pull()).exitCode).toBe(0);
    expect(hub.seen.map(({ path }) => path)).toEqual([expect.stringContaining("/revision/main")]);
  });

  test("prints one object for programs", async () => {
    const { stdout } = await pull("--json");
    const byteLength = WEIGHTS.length + CONFIG.length + 5;
    expect(JSON.parse(stdout)).toEqual({
      repository: "org/model",
      commit: COMMIT,
      directory: snapshot(),
      byteLength,
    });
  });

  test("goes on where the connection was cut, with the same content or from the start", async () => {
    hub.faults = { cutAfterBytes: 10_000, cuts: CUTS, savedBytes };
    await pullSoon();
    await expectWhole();
    const ranges = hub.seen.filter(({ host }) => host === "storage");
    const expected = Array.from({ length: CUTS }, (_, cut) => `bytes=${(cut + 1) * 10_000}-`);
    expect(ranges.map(({ range }) => range)).toEqual([undefined, ...expected]);
    expect(ranges[1]?.ifRange).toMatch(/^"[0-9a-f]{64}"$/);
  });

  test("goes on in another process where one was stopped", async () => {
    // It waits for the rest for ever.
    hub.faults = { cutAfterBytes: 10_000, savedBytes: () => 0 };
    const child = spawn(process.execPath, [PROGRAM, "models", "pull", "org/model"]);
    await vi.waitFor(() => expect(savedBytes()).toBe(10_000), WAIT);
    expect((await pull()).stderr).toMatch(`Process ${child.pid} is pulling this model`);
    child.kill("SIGKILL");
    await once(child, "exit");
    expect((await sluice("list")).stdout).toContain("not whole: pull it again");
    hub.faults = {};
    hub.seen.length = 0;
    expect((await pull()).exitCode).toBe(0);
    await expectWhole();
    expect(hub.seen.find(({ host }) => host === "storage")?.range).toBe("bytes=10000-");
  }, 60_000);

  test("begins anew where what it has is of another content, or longer than it should be", async () => {
    await pull();
    const [weights = ""] = (await readdir(join(repository(), "blobs"))).filter(
      (n) => n.length === 64,
    );
    const blob = join(repository(), "blobs", weights);
    await rm(blob);
    await writeFile(`${blob}.incomplete`, "x".repeat(500));
    await writeFile(`${blob}.incomplete.etag`, '"of something else"');
    expect((await pull()).exitCode).toBe(0);
    await expectWhole();
    await rm(blob);
    await writeFile(`${blob}.incomplete`, "");
    await truncate(`${blob}.incomplete`, WEIGHTS.length + 1);
    expect((await pull()).exitCode).toBe(0);
    await expectWhole();
  });

  test.each([{ ignoresRanges: true }, { wrongRange: true }])(
    "comes whole from a server that does ranges wrong: %j",
    async (fault) => {
      hub.faults = { cutAfterBytes: 10_000, cuts: 1, savedBytes, ...fault };
      expect((await pullSoon()).commit).toBe(COMMIT);
      await expectWhole();
    },
  );

  test("takes away what has another checksum, and says so", async () => {
    hub.faults = { corrupts: true };
    const run = await pull();
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toContain("came with another checksum than the hub announces");
    expect(existsSync(join(repository(), "refs"))).toBe(false);
    expect(await readdir(join(repository(), "blobs"))).toEqual([]);
  });

  test("stops at the first byte too many", async () => {
    hub.faults = { appends: true };
    const run = await pull();
    expect(run.stderr).toMatch(/is longer than the \d+ bytes it should be/);
    expect(run.exitCode).toBe(1);
  });

  test.each([
    [401, /does not exist or needs permission \(401\), and HF_TOKEN is not set; ask for access/],
    [403, /needs permission \(403\)/],
    [404, /has no such model, revision or file \(404\)/],
    [400, /answered 400/],
  ])("says what %d means, at once", async (status, message) => {
    hub.faults = { status };
    const run = await pull();
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toMatch(message);
    expect(hub.seen).toHaveLength(1);
  });

  test.each([429, 500, 503])("waits and tries again after %d", async (status) => {
    hub.faults = { status, statusTimes: 2 };
    expect((await pullSoon()).commit).toBe(COMMIT);
    await expectWhole();
  });

  test("gives a server up that is never well again", async () => {
    hub.faults = { status: 503 };
    await expect(pullSoon()).rejects.toThrow(
      "Cannot get the list of org/model after 6 attempts: status 503",
    );
  });

  test("gives a server up that says nothing", async () => {
    hub.faults = { silent: true };
    await expect(pullSoon({ silenceMsMax: 30 })).rejects.toThrow(
      /after 6 attempts: .*nothing came for 30 ms/,
    );
  });

  test("shows its token to the hub, and to nobody it is sent on to", async () => {
    hub.token = "hf_secret";
    vi.stubEnv("HF_TOKEN", "hf_secret");
    const run = await pull();
    expect(run.exitCode).toBe(0);
    const [own, others] = [true, false].map((isHub) =>
      hub.seen.filter(({ host }) => (host === "hub") === isHub),
    );
    expect(own?.every(({ authorization }) => authorization === "Bearer hf_secret")).toBe(true);
    expect(others).toHaveLength(1);
    expect(others?.[0]?.authorization).toBeUndefined();
    expect(run.stdout + run.stderr).not.toContain("hf_secret");
  });

  test("says that a token does not let it in, without the token", async () => {
    hub.token = "another";
    vi.stubEnv("HF_TOKEN", "hf_wrong");
    const run = await pull();
    expect(run.stderr).toContain("HF_TOKEN does not let us in");
    expect(run.stderr).not.toContain("hf_wrong");
  });

  test("keeps a token off the open network", async () => {
    vi.stubEnv("HF_TOKEN", "hf_secret");
    vi.stubEnv("HF_ENDPOINT", "http://hub.example");
    const run = await pull();
    expect(run).toMatchObject({ exitCode: 1 });
    expect(run.stderr).toBe(
      "HF_ENDPOINT: expected https, since HF_TOKEN would be readable on the way to hub.example",
    );
  });

  test("downloads nothing large of a model that the engine does not compute, unless forced", async () => {
    await hub.stop();
    hub = await StandInHub.start({ ...FILES, "config.json": '{"model_type":"gemma2"}' });
    vi.stubEnv("HF_ENDPOINT", hub.url);
    const run = await pull();
    expect(run).toMatchObject({ exitCode: 1 });
    expect(run.stderr).toContain('model_type "gemma2" asks for soft-capped logits');
    expect(run.stderr).toContain("--force");
    expect(requestsOf("model.safetensors")).toEqual([]);
    expect((await pull("--force")).exitCode).toBe(0);
  });

  test("takes no file for whole of which the disk took a part", async () => {
    // Of a write that goes beyond the limit the system takes what is within it, as a disk does that gets full.
    const limited = `ulimit -f ${Math.ceil(WEIGHTS.length / 1024) - 1} && exec "$0" "$@"`;
    const words = [process.execPath, PROGRAM, "models", "pull", "org/model"];
    const child = spawn("bash", ["-c", limited, ...words], {
      // What is compiled meanwhile is not for others.
      env: { ...process.env, TMPDIR: folder },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (piece: string) => (stderr += piece));
    const [code] = await once(child, "close");
    expect(stderr).toContain("Cannot write");
    expect(code).toBe(1);
    expect(existsSync(join(repository(), "refs"))).toBe(false);
  }, 60_000);

  test("begins nothing that the disk has no room for", async () => {
    const listing = {
      sha: COMMIT,
      siblings: [
        { rfilename: "config.json", size: CONFIG.length, blobId: "a".repeat(40) },
        { rfilename: "tokenizer.json", size: 2, blobId: "b".repeat(40) },
        {
          rfilename: "model.safetensors",
          lfs: { sha256: "c".repeat(64), size: 2 ** 40 },
        },
      ],
    };
    const blobId = createHash("sha1").update(`blob ${CONFIG.length}\0${CONFIG}`).digest("hex");
    Object.assign(listing.siblings[0] ?? {}, { blobId });
    hub.faults = { listing: JSON.stringify(listing) };
    const run = await pull();
    expect(run.stderr).toMatch(/1\.0 TiB are still to come, but the disk of .* has .* left/);
    expect(requestsOf("model.safetensors")).toEqual([]);
  });

  test.each([
    ["no JSON", "<html>"],
    ["no commit", "{}"],
    ["a commit that is a path", JSON.stringify({ sha: "../../x", siblings: [] })],
    ["no files", JSON.stringify({ sha: COMMIT, siblings: [] })],
    [
      "a checksum that is a path",
      JSON.stringify({
        sha: COMMIT,
        siblings: [{ rfilename: "config.json", size: 1, blobId: "../../../outside" }],
      }),
    ],
  ])("refuses a list with %s", async (_what, text) => {
    hub.faults = { listing: text };
    const run = await pull();
    expect(run.exitCode).toBe(1);
    expect(run.stderr).toMatch(/is not as expected|has no config\.json/);
    expect(await readdir(folder)).toEqual([]);
  });

  test.each(["model", "a/b/c", "../x", "a/..", "a--b/c", "/etc/passwd", "https://x/y"])(
    "takes %j for no name",
    async (name) => {
      expect(await sluice("pull", name)).toMatchObject({ exitCode: 2 });
      expect(hub.seen).toEqual([]);
    },
  );
});

describe("sluice models list, show and rm", () => {
  test("tell of what is there, and take it away when that is meant", async () => {
    expect((await sluice("list")).stdout).toContain(`No models in ${folder}`);
    await pull();
    const listed = await sluice("list");
    expect(listed.stdout).toMatch(/^model +size +revisions\norg\/model +\d+ KiB +main$/);
    expect(JSON.parse((await sluice("list", "--json")).stdout)).toMatchObject({
      models: [{ repository: "org/model", revisions: { main: COMMIT }, isComplete: true }],
    });

    const shown = await sluice("show", "org/model");
    expect(shown.stdout).toContain("3 layers of 54, 4 heads over 2, 67 tokens, context 256");
    expect(shown.stdout).toMatch(/int8 +[\d.]+ KiB/);
    const facts: unknown = JSON.parse((await sluice("show", "org/model", "--json")).stdout);
    expect(facts).toMatchObject({
      supported: true,
      plans: [{ precision: "int8", fits: true }, {}],
    });

    const asked = await sluice("rm", "org/model");
    expect(asked).toMatchObject({ exitCode: 1 });
    expect(asked.stderr).toContain("say --yes");
    expect((await sluice("rm", "org/model", "--yes")).exitCode).toBe(0);
    expect(await readdir(folder)).toEqual([]);
    expect((await sluice("show", "org/model")).stderr).toContain("sluice models pull org/model");
  });

  test("tell that a model did not come whole", async () => {
    hub.faults = { corrupts: true };
    await pull();
    expect((await sluice("list")).stdout).toContain("not whole: pull it again");
  });
});

describe("--model ORG/NAME", () => {
  test("is what was pulled, by its name, and else an advice", async () => {
    const environment = { HF_HUB_CACHE: folder };
    expect(locateModel("org/model", environment)).toEqual({
      kind: "missing",
      advice: "sluice models pull org/model downloads it",
    });
    await pull();
    const located = { kind: "located", directory: snapshot(), name: "org/model" };
    expect(locateModel("org/model", environment)).toEqual(located);
    expect(locateModel(folder, environment)).toMatchObject({ directory: folder, name: undefined });
    const run = await runRecorded("up", "--model", "org/absent");
    expect(run.stderr).toContain("sluice models pull org/absent downloads it");
  });
});

describe("ProgressBar", () => {
  const written: string[] = [];
  const stream = { isTTY: true, columns: 60, write: (text: string) => written.push(text) };
  const progress = { path: "model.safetensors", doneBytes: 0, totalBytes: 100 << 20 };

  test("is drawn on a screen, ten times a second at most, and within its width", () => {
    let nowMs = 0;
    const bar = new ProgressBar(stream, () => nowMs);
    bar.update(progress);
    bar.update({ ...progress, doneBytes: 1 << 20 });
    expect(written).toHaveLength(1);
    nowMs = 1000;
    bar.update({ ...progress, doneBytes: 50 << 20 });
    expect(written[1]).toContain("[############............] 50 % 50.0 MiB of 100 MiB, 50");
    expect(written[1]?.length).toBeLessThanOrEqual(60 + 4);
    bar.end();
    expect(written[2]).toBe("\r\u001B[K");
  });

  test("is nothing where nobody looks", () => {
    written.length = 0;
    const bar = new ProgressBar({ ...stream, isTTY: false }, () => 0);
    bar.update(progress);
    bar.end();
    expect(written).toEqual([]);
  });
});
