import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { runRecorded } from "../cli/support/recorded-terminal.ts";
import type { BareGateway } from "./support/miniflare-gateway.ts";
import { startBareGateway } from "./support/miniflare-gateway.ts";

let gateway: BareGateway;
beforeAll(async () => {
  gateway = await startBareGateway("production");
  vi.stubEnv("SLUICE_ADMIN_KEY", gateway.secrets.SLUICE_ADMIN_KEY);
  vi.stubEnv("SLUICE_KEY_PEPPER", gateway.secrets.SLUICE_KEY_PEPPER);
});
afterAll(async () => {
  vi.unstubAllEnvs();
  await gateway.dispose();
});

/** Runs a command against the gateway, and expects it to end as it should. */
async function sluice(words: readonly string[], expectedExitCode = 0): Promise<string> {
  vi.stubEnv("SLUICE_ADMIN_KEY", gateway.secrets.SLUICE_ADMIN_KEY);
  vi.stubEnv("SLUICE_KEY_PEPPER", gateway.secrets.SLUICE_KEY_PEPPER);
  const { exitCode, stdout, stderr } = await runRecorded(...words, "--url", gateway.gatewayUrl);
  expect({ words, exitCode, stderr: exitCode === 0 ? "" : stderr }).toMatchObject({
    exitCode: expectedExitCode,
  });
  return `${stdout}${stderr}`;
}

async function statusOf(apiKey: string, path = "/v1/models"): Promise<number> {
  const headers = { authorization: `Bearer ${apiKey}` };
  return (await fetch(`${gateway.gatewayUrl}${path}`, { headers })).status;
}

function writeFile(name: string, text: string): string {
  const file = join(gateway.folder, name);
  writeFileSync(file, text);
  return file;
}

const keyIn = (text: string) => /sk-sluice-[\w-]{48}/.exec(text)?.[0] ?? "";

const textWith = (hash: string, acme = "") => `
models: { tiny: { context: 2048, pool: local } }
pools: { local: { engine: openai, replicas: [{ url: "http://127.0.0.1:9" }] } }
tenants:
  acme: { keys: [{ name: prod, hash: "${hash}" }], models: [tiny], class: chat${acme} }
`;

test("an operator takes a gateway from a file to tenants, keys, a mistake and back, without a restart", async () => {
  expect(await statusOf("sk-sluice-junk")).toBe(401);

  vi.stubEnv("SLUICE_KEY_PEPPER", gateway.secrets.SLUICE_KEY_PEPPER);
  const made: { key: string; hash: string } = JSON.parse(
    (await runRecorded("hash-key", "--json")).stdout,
  );
  // Well-formed, but of no gateway's configuration yet.
  expect(await statusOf(made.key)).toBe(503);
  const file = writeFile(
    "sluice.yaml",
    textWith(made.hash, ", limits: { tokens_per_minute: 400k }"),
  );
  const added = await sluice(["diff", file]);
  expect(added).toContain("4 added, 0 changed, 0 removed");
  expect(added).toContain("+ tenant acme\n    models: [tiny]\n    class: chat\n");
  const applied = await sluice(["apply", file, "--reason", "first"]);
  expect(applied).toMatch(/\+ tenant acme\n(.|\n)*as version 1: 4 added/);
  expect(await sluice(["diff", file])).toContain("No difference: version 1, which is live");
  expect(await sluice(["apply", file])).toContain("as version 1, which is live already");

  await sluice(["tenants", "add", "globex", "--models=tiny", "--class=bulk", "--weight=2"]);
  const globex = keyIn(await sluice(["keys", "create", "globex", "app", "--scopes=inference"]));
  expect([await statusOf(globex), await statusOf(globex, "/v1/usage")]).toEqual([200, 403]);
  expect(await sluice(["tenants", "list"])).toMatch(/^acme +chat +tiny +- +- +400000$/m);

  const fresh = keyIn(await sluice(["keys", "rotate", "acme", "prod", "--overlap", "1h"]));
  expect([await statusOf(made.key), await statusOf(fresh)]).toEqual([200, 200]);
  await sluice(["tenants", "change", "acme", "--tokens-per-minute", "1k", "--concurrency=3"]);
  expect(await sluice(["tenants", "show", "acme"])).toMatch(/^tokensPerMinuteMax +1000$/m);

  expect(await sluice(["diff", "2"])).toMatch(/limits.tokens_per_minute: 400000 -> 1000/);
  expect(await sluice(["diff", "3"])).toContain("No difference: version 3 is the live one");
  expect(await sluice(["rollback", "2"], 1)).toMatch(
    /limits.tokens_per_minute: 1000 -> 400000(.|\n)*Nothing was done: say --yes/,
  );
  expect(await sluice(["rollback", "2", "--yes", "--reason=too low"])).toContain("as version 4");
  expect(await sluice(["tenants", "show", "acme"])).toMatch(/^tokensPerMinuteMax +400000$/m);
  // Keys do not go back with it.
  expect([await statusOf(made.key), await statusOf(fresh)]).toEqual([200, 200]);
  const history = await sluice(["history"]);
  expect(history).toMatch(
    /^4 .*bootstrap +rollback to 2 +0 added, 1 changed, 0 removed +too low$/m,
  );
  expect(history).toMatch(/^1 .*bootstrap +apply .*first$/m);

  expect(await sluice(["keys", "revoke", "globex", "app"], 1)).toContain("say --yes");
  await sluice(["keys", "revoke", "globex", "app", "--yes"]);
  await expect.poll(() => statusOf(globex), { timeout: 20_000 }).toBe(401);
  expect(await sluice(["keys", "list", "acme"])).toMatch(/^prod-2 +issued +inference,usage/m);
  expect(await sluice(["usage", "acme"])).toMatch(/^acme in \d{4}-\d{2}: 0 tokens/m);
  const late = keyIn(await sluice(["keys", "create", "globex", "late"]));
  // A file without globex would lock it out, and says so; who gets its name later is somebody else.
  const removal = "- tenant globex, and an issued key\n";
  expect(await sluice(["apply", file], 1)).toMatch(
    new RegExp(`^${removal}.*\nNothing was done: say --yes`),
  );
  expect(await statusOf(late)).toBe(200);
  expect(await sluice(["tenants", "remove", "globex"], 1)).toContain("Its keys go with it: late");
  await sluice(["tenants", "remove", "globex", "--yes"]);
  await expect.poll(() => statusOf(late), { timeout: 20_000 }).toBe(401);
  const { version } = JSON.parse(
    await sluice(["tenants", "add", "globex", "--models=tiny", "--class=bulk", "--json"]),
  );
  expect(await sluice(["keys", "list", "globex"])).not.toContain("late");
  await sluice(["rollback", String(version - 2), "--yes"]);
  await expect.poll(() => statusOf(late), { timeout: 20_000 }).toBe(200);
  expect(await sluice(["apply", file, "--yes"])).toContain(removal);
  expect(JSON.parse(await sluice(["tenants", "list", "--json"]))).toMatchObject({
    tenants: [{ tenantId: "acme" }],
  });
});

test("an administrator has a key of their own, and every message says what to do", async () => {
  const alice = keyIn(await sluice(["keys", "create", "acme", "alice", "--scopes=admin"]));
  vi.stubEnv("SLUICE_ADMIN_KEY", alice);
  const asAlice = await runRecorded("history", "--json", "--url", gateway.gatewayUrl);
  expect(JSON.parse(asAlice.stdout)).toMatchObject({ versions: expect.any(Array) });
  vi.stubEnv("SLUICE_ADMIN_KEY", keyIn(await sluice(["keys", "create", "acme", "bob"])));
  expect(await runRecorded("history", "--url", gateway.gatewayUrl)).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining("expected the scope admin, found inference, usage"),
  });
  const refusals: [string[], string][] = [
    [["rollback", "77", "--yes"], "Version 77 is not kept"],
    [["keys", "create", "nobody", "x"], "refused (404): There is no tenant 'nobody'"],
    [["keys", "rotate", "acme", "nope"], "The tenant 'acme' has no key 'nope'"],
    [["keys", "create", "acme", "y", "--scopes=root"], "Expected --scopes to be"],
    [["keys", "create", "acme", "prod"], "The tenant has a key of this name"],
    [
      ["tenants", "add", "acme", "--models=tiny", "--class=chat"],
      "There is a tenant 'acme' already",
    ],
    [
      ["tenants", "add", "x", "--models=gpt", "--class=chat"],
      "--models to be one of the models tiny",
    ],
    [
      ["tenants", "change", "acme", "--class=chta"],
      'Expected --class to be one of the classes chat, interactive, standard, agent, bulk, found "chta"',
    ],
    [["usage", "nobody"], "There is no tenant 'nobody'"],
    [["tenants", "remove", "nobody"], "There is no tenant 'nobody'"],
    [
      [
        "apply",
        writeFile("other.yaml", textWith(`hmac-sha256:${"0".repeat(64)}`)),
        "--expected-version=1",
      ],
      "Expected version 1 to be live",
    ],
  ];
  for (const [words, message] of refusals) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    expect(await sluice(words, 1)).toContain(message);
  }
  const wrongUses: [string[], string][] = [
    [["keys", "make"], 'Expected one of list, create, rotate, revoke, found "make"'],
    [["keys", "create", "acme"], "Expected a word for NAME"],
    [["tenants", "add", "x"], "Expected --models and --class"],
    [
      ["tenants", "change", "acme", "--weight=much"],
      "--weight: Expected a number from 0.01 to 1000",
    ],
    [
      ["tenants", "change", "acme", "--concurrency=0"],
      '--concurrency: Expected a number from 1 to 100000, such as 64 or 400k, or none, found "0"',
    ],
    [["tenants", "change", "acme", "--guaranteed=95%"], "Expected a share of at most 90%"],
    [["tenants", "change", "acme", "--priority=10"], "Expected a number from 0 to 9, or none"],
    [["tenants", "change", "acme", "--spend-per-month=0"], "Expected an amount from 0.000001"],
    [["rollback", "first"], "Expected the number of the version"],
    [["keys", "create", "acme", "y", "--expires=soon"], "Expected a date such as 2027-06-30"],
  ];
  for (const [words, message] of wrongUses) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    expect(await sluice(words, 2)).toContain(message);
  }
});

test("every command speaks to programs as well as to people", async () => {
  const file = join(gateway.folder, "sluice.yaml");
  const asking: string[][] = [
    ["tenants", "list"],
    ["tenants", "show", "acme"],
    ["keys", "list", "acme"],
    ["diff", file],
    ["diff", "1"],
    ["history"],
    ["usage", "acme"],
    ["slo"],
    ["slo", "acme"],
    ["pools", "list"],
  ];
  const doing: string[][] = [
    ["apply", file, "--reason=again", "--yes"],
    ["tenants", "add", "initech", "--models=tiny", "--class=bulk"],
    ["tenants", "change", "initech", "--concurrency=2"],
    ["keys", "create", "initech", "app"],
    ["keys", "rotate", "initech", "app", "--overlap=1h"],
    ["keys", "revoke", "initech", "app", "--yes"],
    ["tenants", "remove", "initech", "--yes"],
    ["rollback", "1", "--yes"],
  ];
  for (const words of [...asking, ...doing]) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    const told: unknown = JSON.parse(await sluice([...words, "--json"]));
    expect([words, typeof told]).toEqual([words, "object"]);
  }
  for (const words of asking) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    expect(await sluice(words)).not.toMatch(/^\s*[{[]/);
  }
});
