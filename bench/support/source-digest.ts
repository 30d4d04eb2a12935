import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..");

/** A digest of source files: of all below a folder, of those right in it (`folder/*.ts`), or of one. */
export function digestOfSources(paths: readonly string[]): string {
  const hash = createHash("sha256");
  for (const file of paths.flatMap(filesOf).toSorted()) {
    hash
      .update(`${file}\0`)
      .update(readFileSync(join(ROOT, file)))
      .update("\0");
  }
  return hash.digest("hex").slice(0, 16);
}

function filesOf(path: string): string[] {
  const isFlat = path.endsWith("/*.ts");
  const at = isFlat ? path.slice(0, -"/*.ts".length) : path;
  if (!statSync(join(ROOT, at)).isDirectory()) return [at];
  return readdirSync(join(ROOT, at), { recursive: !isFlat, encoding: "utf8" })
    .filter((name) => name.endsWith(".ts"))
    .map((name) => join(at, name));
}
