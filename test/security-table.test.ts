import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
const TABLE = readFileSync(join(ROOT, "test/security/README.md"), "utf8");
const ROWS = [
  ...TABLE.matchAll(/^\| (?<threat>.+?) \| `(?<file>[^`]+)` \| (?<title>.+) \|$/gm),
].map(({ groups = {} }) => ({ threat: "", file: "", title: "", ...groups }));

describe("the table of threats", () => {
  test("names a test that is there for each", () => {
    expect(ROWS.length).toBeGreaterThan(30);
    const missing = ROWS.filter(({ file, title }) => {
      const path = join(ROOT, file);
      return !existsSync(path) || !readFileSync(path, "utf8").includes(`"${title}"`);
    });
    expect(missing).toEqual([]);
  });

  test("has a row for every test that is for nothing but security", () => {
    const folder = join(ROOT, "test/security");
    const titles = readdirSync(folder)
      .filter((name) => name.endsWith(".test.ts"))
      .flatMap((name) => [
        ...readFileSync(join(folder, name), "utf8").matchAll(/^ {2}test\("(.+?)"/gm),
      ])
      .map(([, title = ""]) => title);
    expect(titles.length).toBeGreaterThan(10);
    const listed = new Set(ROWS.map(({ title }) => title));
    expect(titles.filter((title) => !listed.has(title))).toEqual([]);
  });
});
