import { describe, expect, test } from "vitest";
import {
  assemble,
  readRow,
  ThingLine,
  thingsOf,
  toRow,
  toThingLine,
} from "../../../src/tenants/configuration-rows.ts";
import { LiveConfiguration } from "../../../src/tenants/live-configuration.ts";

const CONFIGURATION = LiveConfiguration.parse({
  classes: [{ className: "voice", targets: { tbtMaxMs: 200 } }],
  models: [{ modelId: "m", poolId: "p", upstreamModel: "u", contextTokens: 8 }],
  pools: [{ poolId: "p", engine: "openai", replicas: [], queueMax: 1 }],
  tenants: [{ tenantId: "t", modelIds: ["m"], className: "voice", targets: { tbtMaxMs: 200 } }],
  keys: [{ hash: "a".repeat(64), tenantId: "t", name: "k", expiresAtMs: 7 }],
});

const rowsOf = (configuration: unknown) =>
  [...thingsOf(LiveConfiguration.parse(configuration))].map(toRow);

describe("toRow()", () => {
  test("a configuration comes back from its rows as it was", () => {
    const rows = [...thingsOf(CONFIGURATION)].map(toRow);
    expect(rows.map(({ kind, id }) => [kind, id])).toEqual([
      ["settings", "-"],
      ["pool", "p"],
      ["model", "m"],
      ["tenant", "t"],
      ["key", "a".repeat(64)],
    ]);
    expect(assemble(rows.map(readRow)).data).toEqual(CONFIGURATION);
  });

  test("equal things have equal text, in whatever order they were written", () => {
    const [pool] = CONFIGURATION.pools;
    const turned = {
      ...CONFIGURATION,
      pools: [Object.fromEntries(Object.entries(pool ?? {}).toReversed())],
    };
    expect(rowsOf(turned)).toEqual(rowsOf(CONFIGURATION));
  });

  test("what a key's row says beside its value is not in the value", () => {
    const row = [...thingsOf(CONFIGURATION)].map(toRow).find(({ kind }) => kind === "key");
    expect(row).toMatchObject({ tenantId: "t", name: "k", value: '{"expiresAtMs":7}' });
  });
});

describe("readRow()", () => {
  const row = { kind: "model", id: "m", tenantId: null, name: null } as const;
  test.each([
    ["another's id", { ...row, id: "n", value: JSON.stringify(CONFIGURATION.models[0]) }],
    ["a value of another kind", { ...row, value: JSON.stringify(CONFIGURATION.pools[0]) }],
    ["half a value", { ...row, value: '{"modelId":"m"' }],
  ])("throws at %s", (_what, torn) => {
    expect(() => readRow(torn)).toThrow(/stored as another one|Invalid|Unterminated|expected/i);
  });
});

describe("ThingLine", () => {
  test("reads what toThingLine() writes", () => {
    for (const thing of thingsOf(CONFIGURATION)) {
      expect(ThingLine.parse(JSON.parse(toThingLine(thing)))).toEqual(thing);
    }
  });

  test.each([{}, { pool: CONFIGURATION.pools[0], model: CONFIGURATION.models[0] }, { what: {} }])(
    "refuses %j",
    (line) => {
      expect(ThingLine.safeParse(line).success).toBe(false);
    },
  );
});
