import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
/** Where what somebody sends meets what only some shall know. */
const FOLDERS = ["workers", "src/tenants", "gpu-backend/server"];

const OPERAND = String.raw`[\w.#?]+(?:\([^()]*\))?`;
const COMPARED = new RegExp(`(${OPERAND}) *[!=]== *(${OPERAND})`, "g");
const SECRET = /(?:secret|key|hash|pepper|checksum|bearer)(?:\(.*\))?$/i;
const NO_TEXT = /^(?:undefined|null|true|false|\d+)$/;

/** None of these compares what somebody sent. */
const ALLOWED = [
  "src/tenants/configuration-references.ts: hasPlain === hasHash",
  "workers/settings.ts: other.secret === secret",
];

/** Comparisons by the language of what is named like a secret: they end at the first difference. */
function comparisonsIn(text: string): string[] {
  return [...text.matchAll(COMPARED)]
    .filter(([, left = "", right = ""]) => SECRET.test(left) || SECRET.test(right))
    .filter(([, , right = ""]) => !NO_TEXT.test(right))
    .map(([comparison]) => comparison);
}

describe("secrets", () => {
  test("that somebody sends are compared in a time that does not tell where they differ", () => {
    const files = FOLDERS.flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
        .filter((name) => name.endsWith(".ts"))
        .map((name) => `${folder}/${name}`),
    );
    const found = files.flatMap((file) =>
      comparisonsIn(readFileSync(join(ROOT, file), "utf8")).map((text) => `${file}: ${text}`),
    );
    expect(found.toSorted()).toEqual(ALLOWED);
    for (const text of ["a.keyHash === keyHash", "readBearer(headers) !== secret"]) {
      expect(comparisonsIn(`if (${text}) return;`)).toEqual([text]);
    }
  });
});
