import { createHash } from "node:crypto";
import { join } from "node:path";
import { buildSync } from "esbuild";

const ROOT = join(import.meta.dirname, "..", "..");

/**
 * A digest of a program of this repository, its entry and all that it imports, but for these modules and what they
 * alone import. Comments and layout do not count.
 */
export function digestOfProgram(entry: string, without: readonly string[] = []): string {
  const { outputFiles } = buildSync({
    entryPoints: [join(ROOT, entry)],
    external: without.map((path) => join(ROOT, path)),
    bundle: true,
    packages: "external",
    format: "esm",
    minifyWhitespace: true,
    write: false,
  });
  const hash = createHash("sha256");
  for (const { contents } of outputFiles) hash.update(contents);
  return hash.digest("hex").slice(0, 16);
}
