import { describe, expect, test } from "vitest";
import * as z from "zod";
import { changesText } from "../../cli/changes-text.ts";
import { fieldText } from "../../cli/file-words.ts";
import { changedFields } from "../../src/tenants/configuration-changes.ts";
import {
  LiveKey,
  LiveModel,
  LivePool,
  LiveSettings,
  LiveTenant,
} from "../../src/tenants/live-configuration.ts";

interface JsonSchema {
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
}

const NAMES = ["className", "replicaId", "modelId", "poolId", "name"];

/** The paths of all that a schema allows, as the gateway tells what changed. */
function* pathsOf({ properties, items }: JsonSchema, path: string): Generator<string> {
  const members = items?.properties ?? {};
  if (properties !== undefined) {
    for (const [name, member] of Object.entries(properties)) {
      yield* pathsOf(member, path === "" ? name : `${path}.${name}`);
    }
  } else if (items !== undefined && NAMES.some((name) => name in members)) {
    yield* pathsOf(items, `${path}["it"]`);
  } else {
    yield path;
  }
}

describe("fieldText()", () => {
  const kinds = {
    settings: LiveSettings,
    model: LiveModel,
    pool: LivePool,
    tenant: LiveTenant,
    key: LiveKey.omit({ hash: true, tenantId: true, name: true }),
  } as const;
  const paths = Object.entries(kinds).flatMap(([kind, schema]) => {
    const json: JsonSchema = JSON.parse(
      JSON.stringify(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" })),
    );
    return [...pathsOf(json, "")].map((path) => [kind, path] as const);
  });

  test("has the file's words for whatever a configuration may have", () => {
    expect(paths.length).toBeGreaterThan(60);
    for (const [kind, path] of paths) {
      const text = fieldText(z.enum(["settings", "model", "pool", "tenant", "key"]).parse(kind), {
        path,
        after: "1",
      });
      expect({ path, isOurs: /[a-z][A-Z]|Ms\b|\*/.test(text ?? "") }).toEqual({
        path,
        isOurs: false,
      });
    }
  });

  test.each([
    ["tenant", "concurrencyMax", 4, 8, "limits.concurrency: 4 -> 8"],
    [
      "tenant",
      'shares["a.b"].guaranteedRatio',
      1 / 6,
      0.2,
      "share.guaranteed in pool a.b: 16.6667% -> 20%",
    ],
    ["tenant", "spendPerMonthMaxMicros", undefined, 99_500_000, "limits.spend_per_month: 99.5"],
    ["tenant", "timeouts.totalMs", 120_000, 1_500, "timeouts.total: 2m -> 1500ms"],
    ["tenant", "modelIds", ["a"], ["a", "b"], "models: [a] -> [a, b]"],
    [
      "tenant",
      "overload",
      undefined,
      [
        { kind: "queue", ratio: 0.6 },
        { kind: "clamp", outputTokensMax: 256 },
        { kind: "fallback", modelId: "small" },
        { kind: "reject" },
      ],
      "overload: [queue: 60%, clamp_max_tokens: 256, fallback_model: small, reject]",
    ],
    [
      "model",
      "price.inputPicosPerToken",
      150_000,
      undefined,
      "price_per_million_tokens.input: 0.15 -> nothing",
    ],
    [
      "settings",
      'classes["voice"].targets.ttft.limitMs',
      300,
      400,
      "classes.voice.ttft: 300ms -> 400ms",
    ],
    ["key", "expiresAtMs", undefined, Date.UTC(2027, 5, 30), "expires: 2027-06-30"],
    [
      "key",
      "notBeforeAtMs",
      undefined,
      Date.UTC(2027, 5, 30, 1),
      "not_before: 2027-06-30T01:00:00Z",
    ],
    ["tenant", "tenantId", undefined, "acme", undefined],
    // Of a gateway of a later version.
    ["tenant", "newThing", 1, 2, "newThing: 1 -> 2"],
    ["tenant", "timeouts.totalMs", undefined, "soon", "timeouts.total: soon"],
  ] as const)("of a %s: %s", (kind, path, before, after, text) => {
    const change = {
      path,
      ...(before !== undefined && { before: JSON.stringify(before) }),
      ...(after !== undefined && { after: JSON.stringify(after) }),
    };
    expect(fieldText(kind, change)).toBe(text);
  });
});

describe("changesText()", () => {
  const none = { counts: { added: 0, changed: 0, removed: 0 }, changes: [] };

  test.each([
    [{ version: 3, problems: ["it does not fit"] }, "No difference: version 3, which is live"],
    [{ from: 1, to: 1 }, "No difference: version 1 is the live one"],
    [{ from: 1, to: 3 }, "No difference between version 1 and version 3"],
  ])("says of %j that nothing differs", (compared, text) => {
    const [first, ...rest] = changesText({ ...none, ...compared });
    expect(first).toContain(text);
    expect(rest).toEqual(("problems" in compared ? compared.problems : []).map((it) => `! ${it}`));
  });

  test("tells what was added with all that it has, and whose keys go", () => {
    const tenant = { tenantId: "acme", modelIds: ["tiny"], className: "chat", concurrencyMax: 4 };
    const fields = changedFields(undefined, tenant);
    expect(
      changesText({
        counts: { added: 1, changed: 0, removed: 2 },
        changes: [
          { kind: "tenant", name: "newt", change: "removed", issuedKeys: 1 },
          { kind: "tenant", name: "acme", change: "added", fields },
        ],
      }),
    ).toEqual([
      "- tenant newt, and an issued key",
      "+ tenant acme",
      "    models: [tiny]",
      "    class: chat",
      "    limits.concurrency: 4",
      "… and 1 more",
      "1 added, 0 changed, 2 removed",
    ]);
  });

  test("says so where there is more of one thing than is told", () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`f${at}`, at]));
    const lines = changesText({
      counts: { added: 0, changed: 1, removed: 0 },
      changes: [
        { kind: "settings", name: "-", change: "changed", fields: changedFields({}, many) },
      ],
    });
    expect([lines[0], lines.at(-2)]).toEqual(["~ settings", "    …"]);
  });
});
