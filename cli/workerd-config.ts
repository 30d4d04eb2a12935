import { join } from "node:path";
import * as z from "zod";
import { PACKAGE_ROOT } from "./wrangler.ts";

/** What of `wrangler.toml` holds wherever the Worker runs. */
const Platform = z.object({
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()),
  durable_objects: z.object({
    bindings: z.array(z.object({ name: z.string(), class_name: z.string() })),
  }),
});
type Platform = z.infer<typeof Platform>;

/** The variables that the Worker needs; pools may name further ones. */
export const WORKER_VARIABLES = [
  "SLUICE_MODE",
  "SLUICE_KEY_PEPPER",
  "SLUICE_CACHE_MASTER",
  "SLUICE_ADMIN_KEY",
  "SLUICE_REPLICA_SECRET",
] as const;

/** That of every configuration, which workerd brings along. */
const SCHEMA = "/workerd/workerd.capnp";

/** How `workerd serve` is to run the Worker. */
export interface WorkerdWish {
  /** Of the bundle, seen from the configuration's own folder. */
  readonly bundle: string;
  /** `host:port`. */
  readonly listen: string;
  /** Where the objects store what they store: an absolute path of a folder that is there. */
  readonly objectsFolder: string;
  /** Read from the environment at the start, so that no secret is written down. */
  readonly variables: readonly string[];
}

/** wrangler is loaded only here, since it takes longer than all the rest of a command. */
export async function readPlatform(): Promise<Platform> {
  const { unstable_readConfig } = await import("wrangler");
  return Platform.parse(unstable_readConfig({ config: join(PACKAGE_ROOT, "wrangler.toml") }));
}

/** Writes a configuration of `workerd serve`, by what `wrangler.toml` says of the Worker. */
export function toWorkerdConfig(
  platform: Platform,
  { bundle, listen, objectsFolder, variables }: WorkerdWish,
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
  return `using Workerd = import ${quote(SCHEMA)};
const config :Workerd.Config = (
  services = [
    (name = "gateway", worker = .gateway),
    (name = "internet", network = (allow = ["private", "public"], tlsOptions = (trustBrowserCas = true))),
    (name = "objects", disk = (path = ${quote(objectsFolder)}, writable = true)),
  ],
  sockets = [(name = "http", address = ${quote(listen)}, http = (), service = "gateway")],
);
const gateway :Workerd.Worker = (
  modules = [(name = "edge.js", esModule = embed ${quote(bundle)})],
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
