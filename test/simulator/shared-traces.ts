import { join } from "node:path";
import type { TestContext } from "vitest";

/**
 * Where the public traces lie, if `SLUICE_SHARED` names the folder that holds `traces/`. They are
 * too large to come with the code; without them the test is skipped and says so.
 */
export function sharedTraces(context: TestContext): string {
  const folder = process.env["SLUICE_SHARED"];
  if (folder === undefined) context.skip("SLUICE_SHARED names no folder with public traces");
  return join(folder, "traces");
}
