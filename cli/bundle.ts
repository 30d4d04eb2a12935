import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { CommandFailure } from "./command.ts";
import { Child } from "./stack/child.ts";
import { createRunFolder } from "./stack/run-folder.ts";
import { PACKAGE_ROOT, wranglerCommand, wranglerEnvironment } from "./wrangler.ts";

/** The Worker as one script, as a deployment uploads it and `workerd serve` runs it. */
export interface Bundle {
  readonly file: string;
  readonly bytes: number;
  readonly gzipBytes: number;
}

/** Bundles the Worker into `outFolder`, offline. Throws `CommandFailure` with wrangler's own words. */
export async function buildBundle(outFolder: string): Promise<Bundle> {
  const runFolder = createRunFolder();
  try {
    const flags = ["--config", join(PACKAGE_ROOT, "wrangler.toml"), "--outdir", outFolder];
    const wrangler = new Child({
      command: wranglerCommand(["deploy", "--dry-run", ...flags]),
      folder: PACKAGE_ROOT,
      environment: wranglerEnvironment(runFolder.path),
      onLine: () => undefined,
    });
    const { cause } = await wrangler.exited;
    if (cause !== "exit code 0") {
      const words = wrangler.tail.filter((line) => line.trim() !== "").join("\n");
      throw new CommandFailure(`The Worker cannot be bundled (${cause})\n${words}`);
    }
  } finally {
    runFolder.remove();
  }
  // wrangler names the bundle after the entry that wrangler.toml gives.
  const file = join(outFolder, "edge.js");
  const script = await readFile(file);
  return { file, bytes: script.length, gzipBytes: gzipSync(script).length };
}
