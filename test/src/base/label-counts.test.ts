import { describe, expect, test } from "vitest";
import { LabelCounts } from "../../../src/base/label-counts.ts";

describe("LabelCounts", () => {
  test("counts each label by itself", () => {
    const counts = new LabelCounts(10, "other");
    for (const labels of ["a", "b", "a"]) counts.add(labels);
    counts.add("b", 5);
    expect(counts.list()).toEqual([
      ["a", 2],
      ["b", 6],
    ]);
  });

  test("begins anew when its counts are taken, and takes them back", () => {
    const counts = new LabelCounts(10, "other");
    counts.add("a", 3);
    const taken = counts.take();
    expect(counts.list()).toEqual([]);
    counts.add("a");
    counts.addAll(taken);
    expect(counts.list()).toEqual([["a", 4]]);
  });

  test("counts labels beyond its bound together, and known ones still by themselves", () => {
    const counts = new LabelCounts(3, "other");
    for (const labels of ["a", "b", "c", "d", "c", "a"]) counts.add(labels);
    expect(counts.size).toBe(3);
    expect(counts.list()).toEqual([
      ["a", 2],
      ["b", 1],
      ["other", 3],
    ]);
  });
});
