import { mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { unstable_readConfig } from "wrangler";
import * as z from "zod";
import { buildBundle } from "../../cli/bundle.ts";
import type { ChildPlan } from "../../cli/stack/child.ts";
import type { GatewayAddress } from "../../cli/stack/gateway-child.ts";
import type { RunFolder } from "../../cli/stack/run-folder.ts";
import type { Secrets } from "../../cli/stack/secrets.ts";
import { PACKAGE_ROOT } from "../../cli/wrangler.ts";

/** What a workerd configuration takes from `wrangler.toml`. */
const Platform = z.object({
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
  durable_objects: z.object({
    bindings: z.array(z.object({ name: z.string(), class_name: z.string() })),
  }),
});
type Platform = z.infer<typeof Platform>;

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
  const platform = Platform.parse(
    unstable_readConfig({ config: join(PACKAGE_ROOT, "wrangler.toml") }),
  );
  const configFile = configFileIn(folder);
  const variables = Object.keys({ SLUICE_MODE: "", ...secrets });
  writeFileSync(configFile, toWorkerdConfig(platform, address, folder.path, variables));
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

/** Variables are read from the environment, so that no secret is written down. */
function toWorkerdConfig(
  platform: Platform,
  { host, port }: GatewayAddress,
  folder: string,
  variables: readonly string[],
): string {
  const objects = platform.durable_objects.bindings;
  const namespaces = objects.map(({ class_name: className }) => {
    const name = quote(className);
    return `(className = ${name}, uniqueKey = ${name}, enableSql = true)`;
  });
  const bindings = [
    ...objects.map(
      ({ name, class_name: className }) =>
        `(name = ${quote(name)}, durableObjectNamespace = ${quote(className)})`,
    ),
    ...variables.map((name) => `(name = ${quote(name)}, fromEnvironment = ${quote(name)})`),
  ];
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "gateway", worker = .gateway),
    (name = "internet", network = (allow = ["private", "public"])),
    (name = "objects", disk = (path = ${quote(join(folder, "objects"))}, writable = true)),
  ],
  sockets = [(name = "http", address = ${quote(`${host}:${port}`)}, http = (), service = "gateway")],
);
const gateway :Workerd.Worker = (
  modules = [(name = "edge.js", esModule = embed "bundle/edge.js")],
  compatibilityDate = ${quote(platform.compatibility_date)},
  compatibilityFlags = ${list(platform.compatibility_flags.map(quote))},
  durableObjectNamespaces = ${list(namespaces)},
  durableObjectStorage = (localDisk = "objects"),
  bindings = ${list(bindings)},
);
`;
}

const quote = (text: string) => JSON.stringify(text);

const list = (entries: readonly string[]) => `[${entries.join(", ")}]`;
