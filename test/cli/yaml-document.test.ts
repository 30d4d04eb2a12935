import { describe, expect, test } from "vitest";
import { parseYaml } from "../../cli/yaml-document.ts";

const TEXT = `# a comment
pools:
  local: &local
    replicas:
      - url: http://127.0.0.1:9101
      - { url: http://127.0.0.1:9102 }
  twin: *local
tenants:
  "7": {}
  acme:
    models:
      - a
      - b
`;

function parsed(text: string) {
  const result = parseYaml(text);
  if (result.kind === "invalid") throw new Error(JSON.stringify(result.faults));
  return result.document;
}

describe("parseYaml()", () => {
  const { lineOf } = parsed(TEXT);

  test.each([
    [["pools"], 2],
    [["pools", "local"], 3],
    [["pools", "local", "replicas", 0, "url"], 5],
    [["pools", "local", "replicas", 1], 6],
    [["tenants", "7"], 9],
    [["tenants", "acme", "models", 1], 13],
  ])("the line of %j is %i", (path, line) => {
    expect(lineOf(path)).toBe(line);
  });

  test("what stands behind an alias lies where its anchor is", () => {
    expect(lineOf(["pools", "twin", "replicas", 1, "url"])).toBe(6);
  });

  test("a path that does not exist lies where its nearest part is", () => {
    expect(lineOf(["tenants", "acme", "keys", 0, "hash"])).toBe(10);
    expect(lineOf(["tenants", "acme", "models", 9])).toBe(11);
    expect(lineOf(["nothing"])).toBe(2);
    expect(lineOf([])).toBe(2);
  });

  test("the value is what JSON would give", () => {
    expect(parsed("a: [1, true, ~, '2027-06-30', 2027-06-30]").value).toEqual({
      a: [1, true, null, "2027-06-30", "2027-06-30"],
    });
  });

  test("a key named __proto__ stays a key", () => {
    const { value } = parsed("__proto__: { polluted: true }");
    expect(JSON.stringify(value)).toBe('{"__proto__":{"polluted":true}}');
    expect("polluted" in {}).toBe(false);
  });

  test("an empty text has the value null on line 1", () => {
    const document = parsed("");
    expect(document.value).toBeNull();
    expect(document.lineOf(["models"])).toBe(1);
  });

  test("every fault of a text is told with its line", () => {
    const result = parseYaml("a: 1\nb: [1\nc: {\n");
    if (result.kind === "ok") throw new Error("expected faults");
    expect(result.faults.map((fault) => fault.line)).toContain(3);
    expect(result.faults.length).toBeGreaterThan(1);
  });

  test("a second document is refused on its first line, in words about the text", () => {
    expect(parseYaml("a: 1\n---\nb: 2\n")).toEqual({
      kind: "invalid",
      faults: [
        { line: 2, message: "Expected one YAML document, found a second one that begins here" },
      ],
    });
  });

  test("a key that is there twice is found at any depth, and the last one counts", () => {
    const document = parsed(
      "pools:\n  local:\n    - url: a\n    - url: b\n      url: c\n  7: x\npools:\n  local: d\n",
    );
    expect(document.repeatedKeys).toEqual([
      { path: ["pools"], line: 7, firstLine: 1 },
      { path: ["pools", "local", 1, "url"], line: 5, firstLine: 4 },
    ]);
    expect(document.value).toEqual({ pools: { local: "d" } });
    expect(document.lineOf(["pools", "local"])).toBe(8);
  });

  test("one key in two mappings is no repetition", () => {
    expect(parsed(TEXT).repeatedKeys).toEqual([]);
  });

  test("an alias without an anchor is a fault on its own line", () => {
    expect(parseYaml("a: 1\nb: *nowhere\n")).toEqual({
      kind: "invalid",
      faults: [{ line: 2, message: "There is no anchor &nowhere" }],
    });
  });

  test("aliases cannot blow a small text up", () => {
    const levels = "bcdefghij".split("");
    const bomb = levels.map((name, index) => {
      const below = index === 0 ? "a" : levels[index - 1];
      return `${name}: &${name} [${Array.from({ length: 9 }, () => `*${below}`).join(", ")}]`;
    });
    expect(parseYaml(["a: &a x", ...bomb].join("\n")).kind).toBe("invalid");
  });

  test.each([3_000, 20_000])("%i levels are one fault, closed or not", (levels) => {
    const faults = [{ line: 1, message: "Expected far fewer levels, one within the other" }];
    const deep = `a: ${"[".repeat(levels)}`;
    expect(parseYaml(deep)).toEqual({ kind: "invalid", faults });
    expect(parseYaml(deep + "]".repeat(levels))).toEqual({ kind: "invalid", faults });
  });
});
