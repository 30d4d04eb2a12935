import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { closestName } from "../../../src/tenants/closest-name.ts";

describe("closestName()", () => {
  test.each([
    ["modles", ["models", "pools"], "models"],
    ["interactve", ["interactive", "chat"], "interactive"],
    ["Class", ["class", "classes"], "class"],
    ["contxt", ["pool", "context"], "context"],
    ["ttf", ["tpot", "ttft"], "ttft"],
  ])("takes %s for the nearest of %j", (name, candidates, expected) => {
    expect(closestName(name, candidates)).toBe(expected);
  });

  test("suggests nothing that is further away than one edit in three characters", () => {
    expect(closestName("voice", ["bulk", "chat"])).toBeUndefined();
    expect(closestName("ab", ["xy"])).toBeUndefined();
    expect(closestName("", ["pool"])).toBeUndefined();
  });

  test("counts two swapped neighbours as one mistake", () => {
    expect(closestName("sahre", ["square", "share"])).toBe("share");
    expect(closestName("ttft", ["tttf"])).toBe("tttf");
  });

  test("gives the first of equally near candidates", () => {
    expect(closestName("cat", ["car", "bat"])).toBe("car");
    expect(closestName("cat", ["bat", "car"])).toBe("bat");
  });

  test("finds every name again after one slip of the keyboard", () => {
    const names = ["models", "pools", "classes", "tenants"];
    fc.assert(
      fc.property(
        fc.constantFrom(...names),
        fc.nat(),
        fc.constantFrom("drop", "double", "replace"),
        (name, seed, slip) => {
          const at = seed % name.length;
          const typed = {
            drop: name.slice(0, at) + name.slice(at + 1),
            double: name.slice(0, at + 1) + name.slice(at),
            replace: `${name.slice(0, at)}#${name.slice(at + 1)}`,
          }[slip];
          expect(closestName(typed, names)).toBe(name);
        },
      ),
    );
  });

  test("does not compare names of unbounded length", () => {
    const long = "x".repeat(65);
    expect(closestName(long, [long])).toBeUndefined();
  });
});
