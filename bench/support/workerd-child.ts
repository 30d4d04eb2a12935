import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import * as z from "zod";
import { buildBundle } from "../../cli/bundle.ts";
import type { ChildPlan } from "../../cli/stack/child.ts";
import type { GatewayAddress } from "../../cli/stack/gateway-child.ts";
import type { RunFolder } from "../../cli/stack/run-folder.ts";
import type { Secrets } from "../../cli/stack/secrets.ts";
import { readPlatform, toWorkerdConfig, WORKER_VARIABLES } from "../../cli/workerd-config.ts";
import { PACKAGE_ROOT } from "../../cli/wrangler.ts";

/**
 * Returns how to start the Worker as those do who host it themselves: the bundle that a deployment
 * would upload, under `workerd serve`, with its objects' storage in the run folder.
 */
export async function planWorkerdChild(
  address: GatewayAddress,
  folder: RunFolder,
  secrets: Secrets,
): Promise<Omit<ChildPlan, "onLine">> {
  await buildBundle(join(folder.path, "bundle"));
  mkdirSync(join(folder.path, "objects"));
  const config = toWorkerdConfig(await readPlatform(), {
    bundle: "bundle/edge.js",
    listen: `${address.host}:${address.port}`,
    objectsFolder: join(folder.path, "objects"),
    variables: WORKER_VARIABLES,
  });
  writeFileSync(configFileIn(folder), config);
  const keeper = join(PACKAGE_ROOT, "cli", "keeper.mjs");
  return {
    command: [process.execPath, keeper, folder.path, ...workerdCommand(folder)],
    folder: folder.path,
    environment: { PATH: process.env["PATH"], SLUICE_MODE: "local", ...secrets },
  };
}

/** The command line of the process itself, as the keeper starts it. */
export function workerdCommand(folder: RunFolder): readonly string[] {
  return [workerdBinary(), "serve", configFileIn(folder)];
}

/** Where the `workerd` of our own dependencies lies. */
export function workerdBinary(): string {
  return z.object({ default: z.string() }).parse(createRequire(import.meta.url)("workerd")).default;
}

function configFileIn(folder: RunFolder): string {
  return join(folder.path, "workerd.capnp");
}
