import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ServedModelsState } from "../../../src/replicas/served-models.ts";
import {
  MODELS_AGE_MS_MAX,
  REFUSED_MS,
  ServedModels,
} from "../../../src/replicas/served-models.ts";

function served(models?: readonly string[]) {
  const state: ServedModelsState = { refused: new Map() };
  const settings = models === undefined ? {} : { models };
  return { state, models: new ServedModels({ settings, models: state }) };
}

describe("ServedModels", () => {
  test("has whatever is asked for where neither the configuration nor the server says anything", () => {
    const { models } = served();
    expect(models.has("anything", 0)).toBe(true);
    expect(models.has(undefined, 0)).toBe(true);
  });

  test("has what it says it has, in whichever case, and nothing else, as long as that is not too old", () => {
    const { models } = served();
    models.told(["Base", "sql-lora"], 0);
    for (const nowMs of [0, MODELS_AGE_MS_MAX]) {
      expect(models.has("base", nowMs)).toBe(true);
      expect(models.has("SQL-lora", nowMs)).toBe(true);
      expect(models.has("other", nowMs)).toBe(false);
      expect(models.has(undefined, nowMs)).toBe(true);
    }
    expect(models.has("other", MODELS_AGE_MS_MAX + 1)).toBe(true);
  });

  test("has exactly what its configuration lists, whatever it says itself", () => {
    const { models } = served(["base"]);
    models.told(["sql-lora"], 0);
    expect(models.has("base", 0)).toBe(true);
    expect(models.has("sql-lora", 0)).toBe(false);
  });

  test("is not asked again for what it has just refused, until it says what it has", () => {
    const { models, state } = served(["base", "lora"]);
    models.refused("Lora", 0);
    expect(models.has("lora", REFUSED_MS - 1)).toBe(false);
    expect(models.has("base", 0)).toBe(true);
    expect(models.has("lora", REFUSED_MS)).toBe(true);
    expect(state.isWanted).toBe(true);
    models.told(["lora"], 10);
    expect(models.has("lora", 11)).toBe(true);
    expect(state.isWanted).toBeUndefined();
  });

  test("believes a refusal more than what was said before it", () => {
    const { models } = served();
    models.told(["lora"], 0);
    models.refused("lora", 1);
    expect(models.has("lora", 2)).toBe(false);
  });

  test("remembers 64 refusals, the latest", () => {
    const { models, state } = served();
    for (let index = 0; index < 65; index++) models.refused(`m${index}`, 0);
    models.refused("m1", 1);
    models.refused("m65", 1);
    expect(state.refused.size).toBe(64);
    expect(["m0", "m1", "m2", "m3", "m65"].map((name) => models.has(name, 1))).toEqual([
      true,
      false,
      true,
      false,
      false,
    ]);
  });

  test("takes names for names, whatever they are", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "binary" })), fc.string(), (names, other) => {
        const { models } = served();
        const all = [...names, "__proto__", "constructor"];
        models.told(all, 0);
        for (const name of all) expect(models.has(name, 0)).toBe(true);
        const isThere = all.some((name) => name.toLowerCase() === other.toLowerCase());
        expect(models.has(other, 0)).toBe(isThere);
        expect(models.has("toString", 0)).toBe(all.some((n) => n.toLowerCase() === "tostring"));
      }),
    );
  });
});
