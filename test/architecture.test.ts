import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..");
const FILE_LINES_MAX = 300;

/**
 * The whole dependency rule. A folder may import itself and what stands beside it; the longest
 * matching folder counts. `*` ends a prefix. Packages are listed by name.
 */
const MAY_IMPORT: Record<string, readonly string[]> = {
  "src/base": [],
  "src/protocol": ["src/base", "zod"],
  "src/slo": ["src/base", "src/protocol", "zod"],
  "src/tenants": ["src/base", "src/protocol", "src/slo", "zod"],
  "src/adapters": ["src/base", "src/protocol", "zod"],
  "src/step-cost": ["src/base"],
  "src/replicas": ["src/base", "src/protocol", "src/step-cost"],
  "src/forecast": ["src/base", "src/protocol", "src/slo", "src/replicas", "src/step-cost"],
  "src/routing": ["src/base", "src/protocol", "src/slo", "src/replicas", "src/forecast"],
  "src/admission": ["src/base", "src/protocol", "src/slo", "src/tenants", "src/forecast"],
  "src/prompt-cache": ["src/base", "src/protocol"],
  "src/streaming": ["src/base", "src/protocol", "src/slo"],
  "src/pool": [
    "src/base",
    "src/protocol",
    "src/slo",
    "src/tenants",
    "src/replicas",
    "src/forecast",
    "src/routing",
    "src/admission",
    "src/adapters",
    "src/step-cost",
  ],
  workers: ["src/*", "hono", "jose", "zod", "cloudflare:workers", "node:crypto", "node:buffer"],
  "gpu-backend/engine": ["src/base", "src/protocol", "src/slo", "src/step-cost"],
  "gpu-backend/engine/executor": [
    "gpu-backend/engine/*",
    "src/base",
    "onnxruntime-web",
    "zod",
    "node:crypto",
    "node:fs",
    "node:fs/promises",
    "node:module",
    "node:path",
    "node:url",
  ],
  "gpu-backend/engine/model": [
    "gpu-backend/engine/*",
    "src/base",
    "zod",
    "node:crypto",
    "node:fs",
    "node:fs/promises",
    "node:path",
  ],
  "gpu-backend/engine/structured": [
    "gpu-backend/engine/*",
    "src/base",
    "src/protocol",
    "gpu-backend/start-program.mjs",
    "@mlc-ai/web-xgrammar",
    "node:module",
    "node:url",
    "node:worker_threads",
  ],
  "gpu-backend/engine/tokenizer": [
    "gpu-backend/engine/*",
    "src/base",
    "src/protocol",
    "zod",
    "@huggingface/tokenizers",
    "@huggingface/jinja",
    "node:fs",
    "node:fs/promises",
    "node:path",
  ],
  "gpu-backend/model-store": ["node:*"],
  "gpu-backend": [
    "gpu-backend/engine/*",
    "gpu-backend/model-store",
    "src/base",
    "src/protocol",
    "src/slo",
    "src/step-cost",
    "hono",
    "@hono/node-server",
    "prom-client",
    "tsx",
    "ws",
    "zod",
    "node:*",
  ],
  simulator: ["src/*", "gpu-backend/engine", "node:util"],
  "simulator/traces": ["src/*", "simulator/workloads/*", "node:*"],
  cli: [
    "src/*",
    "simulator/*",
    "gpu-backend/engine/*",
    "gpu-backend/model-store",
    "esbuild",
    "tsx",
    "wrangler",
    "yaml",
    "zod",
    "node:*",
  ],
  "test/workers": ["*"],
  test: ["*"],
  bench: ["*"],
};

const FOLDERS = Object.keys(MAY_IMPORT).toSorted((a, b) => b.length - a.length);
const SKIPPED = new Set(["node_modules", "dist", "kernels", "models", "results", "peers"]);

function sourceFiles(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return SKIPPED.has(entry.name) ? [] : sourceFiles(path);
    return /\.(ts|mts|mjs)$/.test(entry.name) ? [path] : [];
  });
}

function importsOf(file: string): string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s*\(?\s*["']([^"'\n]+)["']/g)].map((m) => m[1] ?? "");
}

const folderOf = (path: string) => FOLDERS.find((folder) => path.startsWith(`${folder}/`));

/** Names what an import points at: a folder of ours, or a package (`@scope/name` or `name`). */
function targetOf(file: string, specifier: string): string {
  if (specifier.startsWith(".")) {
    return relative(ROOT, resolve(ROOT, dirname(file), specifier));
  }
  if (specifier.includes(":")) return specifier;
  const parts = specifier.split("/");
  return specifier.startsWith("@") ? parts.slice(0, 2).join("/") : (parts[0] ?? specifier);
}

function isAllowed(own: string, target: string): boolean {
  if (target.startsWith(`${own}/`) && folderOf(target) === own) return true;
  return (MAY_IMPORT[own] ?? []).some((entry) =>
    entry.endsWith("*")
      ? target.startsWith(entry.slice(0, -1))
      : target === entry || (target.startsWith(`${entry}/`) && folderOf(target) === entry),
  );
}

const files = ["src", "workers", "gpu-backend", "simulator", "cli", "bench", "test"].flatMap(
  sourceFiles,
);
/** In AssemblyScript, whose imports among themselves need no table. */
const kernels = sourceFiles("gpu-backend/kernels");

test("every import follows the import table", () => {
  const broken = files.flatMap((file) => {
    const own = folderOf(file);
    if (own === undefined) return [`${file} lies in no folder of the table`];
    return importsOf(file)
      .map((specifier) => targetOf(file, specifier))
      .filter((target) => !isAllowed(own, target))
      .map((target) => `${file} must not import ${target}`);
  });
  expect(broken).toEqual([]);
});

test("no source file is longer than 300 lines", () => {
  expect(kernels).toContain("gpu-backend/kernels/paged-attention.ts");
  const long = [...files, ...kernels]
    .filter((file) => !/^(test|bench)\//.test(file))
    .map((file) => ({
      file,
      lines: readFileSync(join(ROOT, file), "utf8").trimEnd().split("\n").length,
    }))
    .filter(({ lines }) => lines > FILE_LINES_MAX);
  expect(long).toEqual([]);
});

test("nothing is exported by default except where a tool demands it", () => {
  const demanded = new Set(["workers/edge.ts"]);
  const offenders = files.filter(
    (file) =>
      /^(src|workers|gpu-backend|simulator|cli)\//.test(file) &&
      !demanded.has(file) &&
      /^export default /m.test(readFileSync(join(ROOT, file), "utf8")),
  );
  expect(offenders).toEqual([]);
});
