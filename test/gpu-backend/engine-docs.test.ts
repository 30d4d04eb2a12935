import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const PAGE = new URL("../../docs/ENGINE.md", import.meta.url);

test("every test that docs/ENGINE.md names is there", () => {
  const rows = readFileSync(PAGE, "utf8").matchAll(/\]\((\S+\.test\.ts)\) › (.+) \|$/gm);
  const named = Array.from(rows, ([, path = "", name = ""]) => {
    const isThere = readFileSync(new URL(path, PAGE), "utf8").includes(`"${name}"`);
    return { path, name, isThere };
  });
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter(({ isThere }) => !isThere)).toEqual([]);
});
