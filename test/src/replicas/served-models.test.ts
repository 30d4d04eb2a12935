import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ListedNames } from "../../../src/replicas/listed-names.ts";
import type { ServedModelsState } from "../../../src/replicas/served-models.ts";
import {
  MODELS_AGE_MS_MAX,
  REFUSED_MS,
  ServedModels,
} from "../../../src/replicas/served-models.ts";

function served(models?: readonly string[]) {
  const state: ServedModelsState = { refused: new Map() };
  const settings = models === undefined ? {} : { models };
  const source = { settings, isRemoved: false, models: state };
  return { state, models: new ServedModels(source) };
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

/** Servers of one pool that answer whichever name they are asked by, and what each says it is. */
function answeringAnyName(...lists: readonly (readonly string[] | undefined)[]) {
  const listed = new ListedNames();
  return lists.map((names) => {
    const source = { settings: {}, isRemoved: false, models: { refused: new Map() } };
    const models = new ServedModels(source, listed);
    if (names !== undefined) models.told(names, 0, true);
    return { source, models };
  });
}

const whoHas = (all: ReturnType<typeof answeringAnyName>, name: string, nowMs = 0) =>
  all.map(({ models }) => models.has(name, nowMs));

describe("ServedModels of a server that answers whichever name it is asked by", () => {
  test("has what it lists, and not what only another one lists: it would answer for the wrong model", () => {
    const all = answeringAnyName(["llama"], ["Qwen"]);
    expect(whoHas(all, "LLAMA")).toEqual([true, false]);
    expect(whoHas(all, "qwen")).toEqual([false, true]);
  });

  test("has what nobody lists: that may be its model's other name", () => {
    expect(whoHas(answeringAnyName(["llama"], ["qwen"]), "tgi")).toEqual([true, true]);
  });

  test("is held to it however long ago it was said, as its neighbours are: nobody would refuse", () => {
    const all = answeringAnyName(["llama"], ["qwen"]);
    expect(whoHas(all, "qwen", 100 * MODELS_AGE_MS_MAX)).toEqual([false, true]);
  });

  test("has what it has not been heard to lack, and what is gone from where it was listed", () => {
    const all = answeringAnyName(["llama"], undefined);
    expect(whoHas(all, "llama")).toEqual([true, true]);
    const [first, second] = answeringAnyName(["llama"], ["qwen"]);
    if (first === undefined || second === undefined) throw new Error("There are two");
    second.models.follow({ isMoved: true });
    expect(first.models.has("qwen", 0)).toBe(true);
    second.models.told(["qwen"], 0, true);
    expect(first.models.has("qwen", 0)).toBe(false);
    second.source.isRemoved = true;
    second.models.count();
    expect(first.models.has("qwen", 0)).toBe(true);
  });

  test("heeds what the configuration lists of a neighbour", () => {
    const listed = new ListedNames();
    const models = { refused: new Map() };
    const configured = { settings: { models: ["Qwen"] }, isRemoved: false, models };
    new ServedModels(configured, listed).checkInvariants();
    const other = new ServedModels(
      { settings: {}, isRemoved: false, models: { refused: new Map() } },
      listed,
    );
    other.told(["llama"], 0, true);
    expect(other.has("Qwen", 0)).toBe(false);
  });
});
