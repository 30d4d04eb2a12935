import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { buildEngine } from "../../cli/engine-build.ts";

/**
 * Compiles the engine once for all tests that start one, or threads of one, which is how `sluice up`
 * starts it. Without it each of those programs would load a compiler of its own.
 */
export async function setup(): Promise<() => void> {
  const folder = createRunFolder();
  await buildEngine(folder.path);
  process.env["SLUICE_ENGINE_BUILD"] = folder.path;
  return () => folder.remove();
}
