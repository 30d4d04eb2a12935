import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin, stop } from "esbuild";
import { CommandFailure, messageOf } from "./command.ts";
import { PACKAGE_ROOT } from "./wrangler.ts";

const SOURCES = join(PACKAGE_ROOT, "gpu-backend");
/** One for the process, one for each kind of thread, by their paths among the sources. */
const PROGRAMS = ["main", "engine-thread", "prompt-thread", "engine/structured/grammar-thread"];

/**
 * Compiles the engine's programs into `outFolder`, in a fraction of a second, for `SLUICE_ENGINE_BUILD`
 * of `gpu-backend/start.mjs`. What they read besides stays where it is: models, kernels and packages
 * are those of this installation. A benchmark may put another file in the place of a source: by the end of
 * its path, the path of the other. Throws `CommandFailure` with esbuild's own words.
 */
export async function buildEngine(
  outFolder: string,
  replaced: ReadonlyMap<string, string> = new Map(),
): Promise<void> {
  try {
    await build({
      absWorkingDir: PACKAGE_ROOT,
      entryPoints: PROGRAMS.map((path) => join(SOURCES, `${path}.ts`)),
      outbase: SOURCES,
      outdir: outFolder,
      outExtension: { ".js": ".mjs" },
      bundle: true,
      splitting: true,
      format: "esm",
      platform: "node",
      target: "node20",
      // As Node does it: esbuild would prefer what a package says is for bundlers.
      conditions: [],
      plugins: [replacing(replaced), STAY_IN_PLACE],
      logLevel: "silent",
    });
  } catch (error) {
    throw new CommandFailure(`The engine cannot be compiled\n${messageOf(error)}`);
  } finally {
    // The compiler is a program of its own, which would stay for as long as this one.
    await stop();
  }
}

function replacing(replaced: ReadonlyMap<string, string>): Plugin {
  return {
    name: "replacing",
    setup(compiler) {
      for (const [ending, other] of replaced) {
        const filter = new RegExp(`${ending.replaceAll(".", "\\.")}$`);
        compiler.onResolve({ filter }, () => ({ path: other }));
      }
    },
  };
}

/** Lets every module see its source's address as its own, and packages where they are installed. */
const STAY_IN_PLACE: Plugin = {
  name: "stay-in-place",
  setup(compiler) {
    compiler.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const address = JSON.stringify(pathToFileURL(path).href);
      return { contents: source.replaceAll("import.meta.url", address), loader: "ts" };
    });
    compiler.onResolve({ filter: /^[^./]/ }, async ({ path, pluginData, ...from }) => {
      if (path.startsWith("node:") || pluginData === STAY_IN_PLACE) return undefined;
      const found = await compiler.resolve(path, { ...from, pluginData: STAY_IN_PLACE });
      if (found.errors.length > 0 || found.external) return found;
      return { path: pathToFileURL(found.path).href, external: true };
    });
  },
};
