import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { CommandFailure } from "../../../cli/command.ts";
import { LiveConfiguration } from "../../../src/tenants/live-configuration.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import { providePoolSecrets, provideSecrets, toEnvFile } from "../../../cli/stack/secrets.ts";

describe("provideSecrets()", () => {
  test("no two secrets of one run or of two runs are equal", () => {
    const secrets = [provideSecrets({}), provideSecrets({})].flatMap((each) => Object.values(each));
    expect(new Set(secrets).size).toBe(8);
    expect(secrets.every((secret) => /^[\w-]{43}$/.test(secret))).toBe(true);
  });

  test("a secret of the environment is used instead", () => {
    const adminKey = "an-admin-key-of-32-characters-or-more";
    const secrets = provideSecrets({ SLUICE_ADMIN_KEY: adminKey });
    expect(secrets.SLUICE_ADMIN_KEY).toBe(adminKey);
    expect(secrets.SLUICE_REPLICA_SECRET).not.toBe(adminKey);
  });

  test.each(["", "short", `${"x".repeat(40)}\nSLUICE_MODE=production`, `"${"x".repeat(40)}"`])(
    "%j is refused, without being repeated",
    (secret) => {
      const provide = () => provideSecrets({ SLUICE_KEY_PEPPER: secret });
      expect(provide).toThrow(CommandFailure);
      expect(provide).toThrow(
        /^SLUICE_KEY_PEPPER in the environment: expected 32 .* found \d+ characters$/,
      );
    },
  );
});

test("all secrets that are refused are named at once", () => {
  const wrong = { SLUICE_KEY_PEPPER: "short", SLUICE_ADMIN_KEY: "", SLUICE_CACHE_MASTER: "é" };
  expect(() => provideSecrets(wrong)).toThrow(
    /^SLUICE_KEY_PEPPER .*\nSLUICE_CACHE_MASTER .*\nSLUICE_ADMIN_KEY .*$/,
  );
});

describe("a secret in a file", () => {
  const folder = createRunFolder();
  afterAll(() => folder.remove());
  const SECRET = "an-admin-key-of-32-characters-or-more";

  test("is taken without its line's end", () => {
    const file = folder.writeSecret("admin", `${SECRET}\n`);
    expect(provideSecrets({ SLUICE_ADMIN_KEY_FILE: file }).SLUICE_ADMIN_KEY).toBe(SECRET);
  });

  test("is refused as any other, and where it is given twice or cannot be read", () => {
    const short = folder.writeSecret("short", "short\n");
    expect(() => provideSecrets({ SLUICE_ADMIN_KEY_FILE: short })).toThrow(/found 5 characters/);
    const both = { SLUICE_ADMIN_KEY: SECRET, SLUICE_ADMIN_KEY_FILE: short };
    expect(() => provideSecrets(both)).toThrow(
      /^Expected either SLUICE_ADMIN_KEY or .* found both$/,
    );
    const missing = { SLUICE_ADMIN_KEY_FILE: join(folder.path, "nowhere") };
    expect(() => provideSecrets(missing)).toThrow(/^Cannot read SLUICE_ADMIN_KEY_FILE: /);
  });
});

describe("providePoolSecrets()", () => {
  const { pools } = LiveConfiguration.parse({
    models: [],
    pools: [
      { poolId: "own", engine: "sluice", replicas: [], queueMax: 1 },
      { poolId: "qa", engine: "openai", replicas: [], queueMax: 1, secretName: "QA_TOKEN" },
    ],
    tenants: [],
    keys: [],
  });

  test("takes from the environment what the pools name, and nothing else", () => {
    const environment = { QA_TOKEN: "sk-of-qa", OTHER: "x" };
    expect(providePoolSecrets({ pools }, environment)).toEqual({ QA_TOKEN: "sk-of-qa" });
  });

  test("takes both halves of a service token as well", () => {
    const transport = { access: { idName: "QA_ID", secretName: "QA_KEY" } };
    const behindAccess = pools.map((pool) => ({ ...pool, transport }));
    const environment = { QA_TOKEN: "sk-of-qa", QA_ID: "id.access", QA_KEY: "k", OTHER: "x" };
    expect(providePoolSecrets({ pools: behindAccess }, environment)).toEqual({
      QA_TOKEN: "sk-of-qa",
      QA_ID: "id.access",
      QA_KEY: "k",
    });
    expect(() =>
      providePoolSecrets({ pools: behindAccess }, { QA_TOKEN: "a", QA_ID: "b" }),
    ).toThrow(/^Expected QA_KEY in the environment, which pool "own" sends to/);
  });

  test.each([
    ["a b", "3 characters"],
    ["x\nSLUICE_MODE=production", "24 characters"],
  ])("%j is refused, without being repeated", (secret, found) => {
    const provide = () => providePoolSecrets({ pools }, { QA_TOKEN: secret });
    expect(provide).toThrow(CommandFailure);
    expect(provide).toThrow(
      new RegExp(`^QA_TOKEN in the environment, which pool "qa" sends .* found ${found}$`),
    );
  });

  test.each([undefined, ""])("%j is none", (secret) => {
    const provide = () => providePoolSecrets({ pools }, { QA_TOKEN: secret });
    expect(provide).toThrow(CommandFailure);
    expect(provide).toThrow(/^Expected QA_TOKEN in the environment, which pool "qa" sends to/);
  });
});

test("toEnvFile() writes one variable a line", () => {
  expect(toEnvFile({ A: "x-y", B: "z==" })).toBe("A=x-y\nB=z==\n");
});

describe("createRunFolder()", () => {
  test("nobody else can read what is in it", () => {
    const folder = createRunFolder();
    const file = folder.writeSecret("gateway.env", "A=1\n");
    expect(readFileSync(file, "utf8")).toBe("A=1\n");
    expect(statSync(folder.path).mode & 0o777).toBe(0o700);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    folder.remove();
  });

  test("two folders are never one", () => {
    const folders = [createRunFolder(), createRunFolder()];
    expect(new Set(folders.map((folder) => folder.path)).size).toBe(2);
    folders.forEach((folder) => folder.remove());
  });

  test("removing it takes all of it, and twice is harmless", () => {
    const folder = createRunFolder();
    folder.writeSecret("gateway.env", "A=1\n");
    folder.remove();
    folder.remove();
    expect(existsSync(join(folder.path, "gateway.env"))).toBe(false);
  });
});
