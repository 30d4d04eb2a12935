import { pathToFileURL } from "node:url";

/**
 * Runs a program of the engine, named by its path in this folder without the ending: compiled, if
 * SLUICE_ENGINE_BUILD names a folder with compiled ones, and as the TypeScript it is if not. Node hands
 * this process's variables on to its threads, so all programs of one engine are from one place.
 */
export async function startProgram(path) {
  const build = process.env.SLUICE_ENGINE_BUILD;
  if (build) {
    await import(new URL(`${path}.mjs`, pathToFileURL(`${build}/`)).href);
    return;
  }
  // Each thread needs a loader of its own: the main thread's is not handed on by Node 20.
  const { register } = await import("tsx/esm/api");
  register();
  await import(`./${path}.ts`);
}
