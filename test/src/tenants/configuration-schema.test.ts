import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse as parseYaml } from "yaml";
import { configurationSchema } from "../../../src/tenants/configuration-schema.ts";
import { parseConfiguration } from "../../../src/tenants/configuration.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

const ajv = new Ajv2020({ strict: true, strictTypes: false });
const isWhole = ajv.compile(configurationSchema());
/** Examples show mostly a part of a file. */
const isPart = ajv.compile({ ...configurationSchema(), required: [] });

const RULES = { mode: "local", hashKey: () => "c".repeat(64) } as const;

describe("sluice.schema.json", () => {
  test("is what the schema of the file makes: `npm run build:schema` writes it", () => {
    expect(JSON.parse(read("sluice.schema.json"))).toEqual(configurationSchema());
  });

  test("takes the files that this repository runs", () => {
    for (const file of ["sluice.local.yaml", "test/e2e/gateway-cases/sluice.yaml"]) {
      isWhole(parseYaml(read(file)));
      expect({ file, errors: isWhole.errors }).toEqual({ file, errors: null });
    }
  });

  const documents = [
    "README.md",
    ...readdirSync(join(ROOT, "docs"))
      .filter((name) => name.endsWith(".md"))
      .map((name) => `docs/${name}`),
  ];
  const examples = documents.flatMap((file) =>
    [...read(file).matchAll(/^```yaml\n(.*?)^```/gms)].map(([, text = ""]) => ({ file, text })),
  );

  test("takes every example of the documents", () => {
    expect(examples.length).toBeGreaterThanOrEqual(2);
    for (const { file, text } of examples) {
      const document: unknown = parseYaml(
        text.replaceAll("hmac-sha256:…", `hmac-sha256:${"a".repeat(64)}`),
      );
      isPart(document);
      expect({ file, text, errors: isPart.errors }).toEqual({ file, text, errors: null });
    }
  });

  test("and the gateway take those of them that are whole", () => {
    const whole = examples
      .map(({ text }): Record<string, unknown> =>
        parseYaml(text.replaceAll("hmac-sha256:…", `hmac-sha256:${"a".repeat(64)}`)),
      )
      .filter((document) => "models" in document && "tenants" in document);
    expect(whole.length).toBeGreaterThanOrEqual(2);
    for (const document of whole) {
      expect(isWhole(document)).toBe(true);
      expect(parseConfiguration(document, { ...RULES, mode: "production" })).toMatchObject({
        kind: "ok",
      });
    }
  });

  test.each([
    ["an unknown key", "tenants: { a: { keys: [], modles: [x] } }"],
    ["a unit that there is not", "classes: { c: { ttft: { p99: 300 } } }"],
    ["a percentile of nothing", "classes: { c: { ttft: { q99: 300ms } } }"],
    [
      "a ladder's step of two things",
      "defaults: { overload: [{ queue: 60%, clamp_max_tokens: 8 }] }",
    ],
    ["an engine that nobody knows", "pools: { p: { engine: vlm, replicas: [{ url: http://a }] } }"],
    ["attempts beyond their bound", "defaults: { attempts: 5 }"],
  ])("refuses %s", (_name, text) => {
    expect(isPart(parseYaml(text))).toBe(false);
  });

  /** Right and wrong values of every key that a tenant and the defaults may have. */
  const entries: [string, unknown][] = [
    ...["chat", "bulk", "x y"].map((value): [string, unknown] => ["class", value]),
    ...[["bulk"], [], "bulk"].map((value): [string, unknown] => ["classes", value]),
    ...[0, 9, 10, "1"].map((value): [string, unknown] => ["priority", value]),
    ...[1, "4", 17].map((value): [string, unknown] => ["shards", value]),
    ...[2, "3", 1].map((value): [string, unknown] => ["attempts", value]),
    ...[true, "yes"].map((value): [string, unknown] => ["continuation", value]),
    ...["120s", "1h", "0.5m"].map((total): [string, unknown] => ["timeouts", { total }]),
    ...["auto", "5s", 5].map((value): [string, unknown] => ["timeouts", { first_token: value }]),
    ...["auto", "1.5s", "on"].map((stall): [string, unknown] => ["timeouts", { stall }]),
    ...[64, "1k", 0].map((value): [string, unknown] => ["limits", { concurrency: value }]),
    ...["2G", "2.5M", "2T"].map((value): [string, unknown] => [
      "limits",
      { tokens_per_month: value },
    ]),
    ...[250, 0.5, "99.50", -1].map((value): [string, unknown] => [
      "limits",
      { spend_per_month: value },
    ]),
    ...[4, 0, 0.5].map((weight): [string, unknown] => ["share", { weight }]),
    ...["20%", "0.5%", 20].map((guaranteed): [string, unknown] => ["share", { guaranteed }]),
    ...[
      ["reject"],
      [{ queue: "60%" }, { clamp_max_tokens: "1k" }, { fallback_model: "m" }],
      [{ queue: 0 }],
      [{}],
      [],
    ].map((value): [string, unknown] => ["overload", value]),
    ...[{ origins: ["https://app.example"] }, { origins: ["*"] }, {}].map(
      (value): [string, unknown] => ["cors", value],
    ),
  ];
  const some = fc.subarray(entries, { maxLength: 3 }).map((chosen) => Object.fromEntries(chosen));

  test("refuses nothing that the gateway takes", () => {
    let taken = 0;
    fc.assert(
      fc.property(some, some, (own, defaults) => {
        const document = {
          models: {
            m: { context: "8k", pool: "p", price_per_million_tokens: { input: 1, output: "2.5" } },
            n: { context: 4096, pool: "p", price_per_million_tokens: { input: 0, output: 0 } },
          },
          pools: { p: { engine: "sluice", replicas: [{ url: "http://127.0.0.1:9101" }] } },
          defaults,
          tenants: {
            a: {
              keys: [{ name: "k", key: "sk-some-key", expires: "2027-06-30" }],
              models: ["n"],
              class: "chat",
              ...own,
            },
          },
        };
        const parsed = parseConfiguration(document, RULES);
        if (parsed.kind === "invalid") return;
        taken += 1;
        isWhole(document);
        expect(isWhole.errors).toBe(null);
      }),
      { numRuns: 1_000 },
    );
    expect(taken).toBeGreaterThan(20);
  });
});
