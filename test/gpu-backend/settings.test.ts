import { describe, expect, test } from "vitest";
import { parseSettings, type Settings } from "../../gpu-backend/settings.ts";
import { aScheduling } from "../support/engine-builders.ts";

const SECRET = "0123456789abcdef";

function settingsOf(argv: readonly string[], secret?: string): Settings {
  const parsed = parseSettings(argv, { SLUICE_REPLICA_SECRET: secret });
  if (parsed.kind !== "settings") throw new Error(JSON.stringify(parsed));
  return parsed.settings;
}

function problemsOf(argv: readonly string[], secret?: string): readonly string[] {
  const parsed = parseSettings(argv, { SLUICE_REPLICA_SECRET: secret });
  if (parsed.kind !== "invalid") throw new Error(JSON.stringify(parsed));
  return parsed.problems;
}

function words(...lines: string[]): string[] {
  return lines.flatMap((line) => line.split(" "));
}

describe("parseSettings", () => {
  test("without flags the bundled model is served to this machine", () => {
    const settings = settingsOf([]);
    expect(settings).toMatchObject({
      modelName: "sluice-tiny",
      host: "127.0.0.1",
      port: 9101,
      precision: "int8",
      runtime: "auto",
      blockCount: undefined,
      prefixCache: true,
      scheduling: aScheduling(),
      kvTiers: undefined,
      speculating: { mode: "lookup", draftTokensMax: 8, draftModelDirectory: undefined },
      requireSalt: false,
      secret: undefined,
    });
    expect(settings.modelDirectory).toMatch(/gpu-backend\/models\/sluice-tiny$/);
  });

  test("each flag reaches its setting", () => {
    const argv = words(
      "--model /models/other --host 0.0.0.0 --port=8000 --precision f32 --kv-blocks 12 --runtime node",
      "--block-tokens 32 --max-batch-tokens 64 --max-sequences 4 --max-queue 5 --require-salt",
      "--pool-url ws://edge/internal/pools/p --advertise-url http://me:8000",
      "--drain-ms 0 --exit-with-stdin --policy priority --keep-tbt --kv-admission past-future",
      "--kv-shares 4 --isolation strict --speculation auto --draft-model /models/small",
      "--max-draft-tokens 3 --kv-host-mib 64 --kv-disk /var/kv --kv-disk-mib 128",
      "--kv-peers http://a:1,https://b/ --role decode",
    );
    expect(settingsOf(argv, SECRET)).toEqual({
      modelDirectory: "/models/other",
      modelName: "other",
      host: "0.0.0.0",
      port: 8000,
      precision: "f32",
      runtime: "node",
      blockCount: 12,
      blockTokens: 32,
      batchTokensMax: 64,
      sequencesMax: 4,
      queueMax: 5,
      requireSalt: true,
      prefixCache: true,
      scheduling: {
        policy: "priority",
        chunkedPrefill: true,
        keepsTbt: true,
        kvAdmission: "past-future",
        kvShares: 4,
        isolation: "strict",
      },
      kvTiers: {
        memoryBytes: 64 * 2 ** 20,
        disk: { folder: "/var/kv", bytes: 128 * 2 ** 20 },
      },
      role: "decode",
      kvPeers: ["http://a:1", "https://b"],
      speculating: { mode: "auto", draftTokensMax: 3, draftModelDirectory: "/models/small" },
      poolUrl: "ws://edge/internal/pools/p",
      advertiseUrl: "http://me:8000",
      drainMs: 0,
      exitWithStdin: true,
      secret: SECRET,
    });
  });

  test("everything that is wrong is told at once, with what would be right", () => {
    const argv = words(
      "--port 99999 --precision q4 --block-tokens 24 --colour red --require-salt=yes",
      "--pool-url http://edge --max-queue --drain-ms -1",
    );
    expect(problemsOf(argv, SECRET)).toEqual([
      "--colour: there is no such flag, --help lists them all",
      '"red": expected a flag that starts with --',
      '--require-salt: takes no value, found "yes"',
      "--max-queue: expected N after it, found the flag --drain-ms",
      "-1: there is no such flag, --help lists them all",
      '--port: expected an integer from 0 to 65535, found "99999"',
      '--precision: expected int8 or f32, found "q4"',
      '--block-tokens: expected a multiple of 16, found "24"',
      '--pool-url: expected a URL such as ws://HOST/internal/pools/POOL, found "http://edge"',
    ]);
  });

  test("keys and values may be kept in another precision than the weights", () => {
    expect(settingsOf([]).kvPrecision, "as the weights").toBeUndefined();
    expect(settingsOf(["--kv-precision", "f32"]).kvPrecision).toBe("f32");
    expect(problemsOf(["--kv-precision", "q4"])).toEqual([
      '--kv-precision: expected int8 or f32, found "q4"',
    ]);
  });

  test("WebGPU is refused for int8, which it does not multiply", () => {
    expect(problemsOf(["--runtime", "webgpu"])).toEqual([
      "--runtime: webgpu multiplies floats only, and int8 would be left to the processor; take --precision f32",
    ]);
    expect(settingsOf(words("--runtime webgpu --precision f32")).runtime).toBe("webgpu");
  });

  test("names of the object prototype are flags nobody has", () => {
    expect(problemsOf(["--constructor", "--__proto__=1"])).toHaveLength(2);
  });

  test("without a secret only this machine is served, and no pool is joined", () => {
    expect(problemsOf(["--host", "10.0.0.7", "--pool-url", "ws://edge/p"])).toEqual([
      expect.stringContaining("--host 10.0.0.7 is reachable by others"),
      expect.stringContaining("--pool-url needs it"),
    ]);
    expect(settingsOf(["--host", "::1"]).host).toBe("::1");
    expect(settingsOf(["--host", "0.0.0.0"], SECRET).host).toBe("0.0.0.0");
  });

  test("an engine that listens everywhere has to say where its pool's gateway reaches it", () => {
    const argv = ["--host", "0.0.0.0", "--pool-url", "ws://edge/p"];
    expect(problemsOf(argv, SECRET)).toEqual([expect.stringMatching(/^--advertise-url: expected/)]);
    const settings = settingsOf([...argv, "--advertise-url", "http://10.0.0.7:9101"], SECRET);
    expect(settings.advertiseUrl).toBe("http://10.0.0.7:9101");
  });

  test("a secret that is short or no header value is refused and never repeated", () => {
    for (const secret of ["hunter2", `${SECRET}\n`, "ein geheimes Wort, lang"]) {
      const problems = problemsOf([], secret);
      expect(problems).toHaveLength(1);
      expect(problems[0]).not.toContain(secret);
    }
  });

  test("a step has at least one token for each running request", () => {
    expect(problemsOf(["--max-batch-tokens", "8"])).toEqual([
      '--max-batch-tokens: expected at least --max-sequences (16), found "8"',
    ]);
  });

  test("a pool cannot be divided among more tenants than it has blocks", () => {
    expect(problemsOf(words("--kv-blocks 4 --kv-shares 5"))).toEqual([
      '--kv-blocks: expected at least --kv-shares (5), found "4"',
    ]);
    expect(settingsOf(words("--kv-blocks 5 --kv-shares 5")).scheduling.kvShares).toBe(5);
  });

  test("the order by slack keeps to promised gaps without being asked to", () => {
    const { scheduling } = settingsOf(words("--policy least-slack"));
    expect(scheduling).toEqual(aScheduling({ policy: "least-slack", keepsTbt: true }));
  });

  test("whole prompts are not cut to promised gaps", () => {
    const { scheduling } = settingsOf(words("--policy least-slack --no-chunked-prefill"));
    expect(scheduling).toEqual(aScheduling({ policy: "least-slack", chunkedPrefill: false }));
    expect(problemsOf(words("--keep-tbt --no-chunked-prefill"))).toEqual([
      "--keep-tbt: expected without --no-chunked-prefill, since it cuts prompts to fit",
    ]);
  });

  test("the bundled model has a draft model, another one only where it is named", () => {
    const draftOf = (argv: string) => settingsOf(words(argv)).speculating.draftModelDirectory;
    expect(draftOf("--speculation draft")).toMatch(/sluice-tiny-draft$/);
    expect(draftOf("--speculation auto --model /models/other")).toBeUndefined();
    expect(problemsOf(words("--speculation draft --model /models/other"))).toEqual([
      "--draft-model: expected with --speculation draft for a model that has none here",
    ]);
    expect(problemsOf(words("--draft-model /models/small"))).toEqual([
      "--draft-model: expected with --speculation draft or auto, which alone use it",
    ]);
  });

  test("the prefix cache can be turned off", () => {
    expect(settingsOf(["--no-prefix-cache"]).prefixCache).toBe(false);
  });

  test("who computes for others keeps it and lets them in, and who decodes knows whom to ask", () => {
    expect(problemsOf(words("--role judge"))).toEqual([
      '--role: expected prefill, decode or mixed, found "judge"',
    ]);
    expect(problemsOf(words("--role prefill"))).toEqual([
      "SLUICE_REPLICA_SECRET: expected in the environment, since --role prefill needs it to let others in",
    ]);
    expect(problemsOf(words("--role prefill --no-prefix-cache"), SECRET)).toEqual([
      "--role: expected without --no-prefix-cache, by which a prefill replica gives or takes KV",
    ]);
    expect(problemsOf(words("--role decode"), SECRET)).toEqual([
      "--role: decode expects --kv-peers, the engines that compute its prompts",
    ]);
    expect(settingsOf(words("--role prefill"), SECRET).role).toBe("prefill");
  });

  test("a tier on disk is reached through one in memory, and either through the prefix cache", () => {
    expect(problemsOf(words("--kv-peers http://a:1"))).toEqual([
      "SLUICE_REPLICA_SECRET: expected in the environment, since --kv-peers needs it to be let in there",
      "--kv-peers: expected with --kv-host-mib, through which all of it comes",
    ]);
    expect(problemsOf(words("--kv-host-mib 8 --kv-peers http://a:1,b"), SECRET)).toEqual([
      '--kv-peers: expected URLs such as http://HOST:PORT, with commas between them, found "http://a:1,b"',
    ]);
    expect(problemsOf(words("--kv-disk /var/kv"))).toEqual([
      "--kv-disk: expected with --kv-host-mib, through which all of it comes back",
    ]);
    expect(problemsOf(words("--kv-host-mib 8 --kv-disk-mib 1024"))).toEqual([
      "--kv-disk-mib: expected with --kv-disk, the folder that it bounds",
    ]);
    expect(problemsOf(words("--kv-host-mib 8 --no-prefix-cache"))).toEqual([
      "--kv-host-mib: expected without --no-prefix-cache, since nothing is found there",
    ]);
  });

  test("help lists every flag with its default, whatever else is wrong", () => {
    const parsed = parseSettings(["--help", "--nonsense"], {});
    if (parsed.kind !== "help") throw new Error(parsed.kind);
    for (const flag of ["--model DIR", "--port N", "--exit-with-stdin", "(default: 9101)"]) {
      expect(parsed.text).toContain(flag);
    }
    expect(parsed.text).toContain("SLUICE_REPLICA_SECRET");
  });
});
