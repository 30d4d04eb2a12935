import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, expect, test } from "vitest";
import { LINE_LENGTH_MAX, linesOf } from "../../../simulator/traces/lines.ts";

const folder = mkdtempSync(join(tmpdir(), "sluice-lines-"));
afterAll(() => rmSync(folder, { recursive: true }));

function written(name: string, content: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
}

test("lines come without their ends, with or without a last one", () => {
  expect([...linesOf(written("unix", "a\nb\n"))]).toEqual(["a", "b"]);
  expect([...linesOf(written("windows", "a\r\n\r\nb"))]).toEqual(["a", "", "b"]);
  expect([...linesOf(written("empty", ""))]).toEqual([]);
});

test("a compressed file has the same lines as the plain one, across chunks and inside characters", () => {
  // Three bytes a character: chunks of 64 KiB end inside of some.
  const lines = Array.from({ length: 5000 }, (_, index) => `${index},${"€".repeat(index % 50)}`);
  const text = lines.join("\n");
  expect([...linesOf(written("plain", text))]).toEqual(lines);
  expect([...linesOf(written("packed.gz", gzipSync(text)))]).toEqual(lines);
});

test("a line beyond the bound is an error that names it", () => {
  const path = written("long", `a\n${"x".repeat(LINE_LENGTH_MAX + 200_000)}\nb\n`);
  expect(() => [...linesOf(path)]).toThrow(/^Line 2: expected at most 1048576 characters/);
});
