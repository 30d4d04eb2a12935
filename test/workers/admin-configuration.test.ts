import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { thingsOf, toThingLine } from "../../src/tenants/configuration-rows.ts";
import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import { CONFIGURATION_LIMITS } from "../../src/tenants/live-configuration.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { settingsOf } from "../../workers/settings.ts";
import { tellAdmin } from "./support/admin.ts";
import { aLiveConfiguration, applyConfiguration } from "./support/configuration.ts";
import { fetchGateway } from "./support/gateway.ts";

afterEach(reset);

const withContext = (tokens: number) => aLiveConfiguration({ model: { contextTokens: tokens } });
const linesOf = (configuration: LiveConfiguration) => [...thingsOf(configuration)].map(toThingLine);

/** Sends a configuration in lines, in as many pieces as it is given in. */
async function sendLines(pieces: readonly string[], path = "/configuration", method = "PUT") {
  const bytes = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const piece of pieces) controller.enqueue(bytes.encode(piece));
      controller.close();
    },
  });
  const headers = {
    authorization: `Bearer ${settingsOf(env).adminKey}`,
    "content-type": "application/x-ndjson; charset=utf-8",
  };
  const response = await fetchGateway(`/admin/v1${path}`, { method, headers, body });
  const answer: Record<string, unknown> = await response.json();
  return { status: response.status, body: answer };
}

const rollBack = (body: object) => tellAdmin("/configuration/rollback", { method: "POST", body });

describe("PUT /admin/v1/configuration, in lines", () => {
  test("takes them wherever the network cuts them, empty ones too", async () => {
    const text = `\n${linesOf(aLiveConfiguration()).join("\n\n")}\n`;
    const cut = Math.floor(text.length / 3);
    const pieces = [text.slice(0, cut), text.slice(cut, 2 * cut), text.slice(2 * cut)];
    expect(await sendLines(pieces, "/configuration?reason=first")).toMatchObject({
      status: 200,
      body: { version: 1, changes: { added: 4 } },
    });
    const { body } = await tellAdmin("/configuration/history");
    expect(body).toMatchObject({ versions: [{ version: 1, reason: "first" }] });
    expect(await sendLines([text.trim()])).toMatchObject({
      body: { version: 1, isChanged: false },
    });
    expect(await sendLines([text], "/configuration?expectedVersion=7")).toMatchObject({
      status: 412,
    });
  });

  test.each([
    ["no JSON", "{", "invalid_json", "Line 2: "],
    ["a thing of no kind", '{"colour":{}}', "invalid_value", "Line 2: "],
    ["two things", '{"pool":{},"model":{}}', "missing_required_parameter", "Line 2: "],
    ["half a thing", '{"tenant":{"tenantId":"x"}}', "missing_required_parameter", "Line 2: "],
    [
      "a thing that is there",
      linesOf(aLiveConfiguration())[0] ?? "",
      "invalid_value",
      "the pool 'local'",
    ],
  ])(
    "refuses a line with %s, says which, and keeps the old configuration",
    async (_what, line, code, text) => {
      await applyConfiguration(withContext(1024));
      const [first = "", ...rest] = linesOf(aLiveConfiguration());
      const answer = await sendLines([[first, line, ...rest].join("\n")]);
      expect(answer).toMatchObject({
        status: 400,
        body: { error: { code, message: expect.stringContaining(text) } },
      });
      expect((await env.DIRECTORY.getByName(DIRECTORY_NAME).summary()).version).toBe(1);
    },
  );

  test("refuses a line that is as long as a document may be, and lines that are not whole together", async () => {
    const long = "x".repeat(CONFIGURATION_LIMITS.documentBytesMax + 1);
    expect(await sendLines([long])).toMatchObject({ status: 413 });
    const withoutPools = linesOf(aLiveConfiguration()).filter((line) => !line.includes('"pool"'));
    expect(await sendLines([withoutPools.join("\n")])).toMatchObject({
      status: 400,
      body: {
        error: {
          param: "configuration",
          message:
            "The configuration cannot go live: expected models[0].poolId to be the name of something that exists",
        },
      },
    });
  });
});

describe("/admin/v1/configuration/diff", () => {
  test("tells what a configuration would change, in either form, and changes nothing", async () => {
    await applyConfiguration(withContext(1024));
    const configuration = aLiveConfiguration({ keys: [] });
    const expected = {
      counts: { added: 0, changed: 1, removed: 1 },
      changes: expect.arrayContaining([
        { kind: "key", name: "tenant-a/key-1", change: "removed" },
        expect.objectContaining({ kind: "model", change: "changed" }),
      ]),
      problems: [],
      version: 1,
    };
    const path = "/configuration/diff";
    expect(await tellAdmin(path, { method: "POST", body: { configuration } })).toEqual({
      status: 200,
      body: expected,
    });
    expect(await sendLines([linesOf(configuration).join("\n")], path, "POST")).toEqual({
      status: 200,
      body: expected,
    });
    expect((await env.DIRECTORY.getByName(DIRECTORY_NAME).summary()).version).toBe(1);
  });

  test("compares two versions, or one with the live one", async () => {
    await applyConfiguration(withContext(1024));
    await applyConfiguration(withContext(2048));
    const field = { path: "contextTokens", before: "1024", after: "2048" };
    const changes = [{ kind: "model", name: "sluice-tiny", change: "changed", fields: [field] }];
    expect((await tellAdmin("/configuration/diff?from=1")).body).toMatchObject({ to: 2, changes });
    expect((await tellAdmin("/configuration/diff?from=2&to=2")).body).toMatchObject({
      changes: [],
    });
    expect(await tellAdmin("/configuration/diff?from=1&to=9")).toMatchObject({
      status: 404,
      body: { error: { message: "Version 1 or 9 is not kept", param: "version" } },
    });
    expect((await tellAdmin("/configuration/diff")).status).toBe(400);
  });
});

describe("POST /admin/v1/configuration/rollback", () => {
  test("makes a former version live, with the version that it must replace", async () => {
    await applyConfiguration(withContext(1024));
    await applyConfiguration(withContext(2048));
    expect(await rollBack({ version: 1, expectedVersion: 1 })).toMatchObject({ status: 412 });
    expect(await rollBack({ version: 1, expectedVersion: 2, reason: "slow" })).toMatchObject({
      status: 200,
      body: { version: 3, isChanged: true, changes: { changed: 1 } },
    });
    expect((await tellAdmin("/configuration/history?limit=1")).body).toMatchObject({
      versions: [{ actor: "bootstrap", action: "rollback to 1", reason: "slow" }],
    });
    expect((await rollBack({ version: 3 })).body).toMatchObject({ isChanged: false });
    expect(await rollBack({ version: 8 })).toMatchObject({ status: 404 });
    expect(await rollBack({ version: 0 })).toMatchObject({ status: 400 });
  });
});
