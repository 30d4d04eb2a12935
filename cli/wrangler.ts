import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";

/** The folder of the package: what the Worker's and the engine's sources are relative to. */
export const PACKAGE_ROOT = resolve(import.meta.dirname, "..");

const OFFLINE: Readonly<Record<string, string>> = {
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  DO_NOT_TRACK: "1",
  // Hiding the banner skips the look-up of newer versions as well.
  WRANGLER_HIDE_BANNER: "true",
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  // The Worker's variables are those of its env file, not whatever else the environment holds.
  CLOUDFLARE_INCLUDE_PROCESS_ENV: "false",
  CLOUDFLARE_LOAD_DEV_VARS_FROM_DOT_ENV: "true",
  // Any value turns the inspector off, whose proxy would re-send every chunk of every stream.
  VSCODE_INSPECTOR_OPTIONS: "{}",
  // Its complaints are recognised by their text.
  NO_COLOR: "1",
  FORCE_COLOR: "0",
};

const PROXY_VARIABLES = /^(https?|all)_proxy$/i;

/** The words that start wrangler under this very Node, wherever npm has put it. */
export function wranglerCommand(args: readonly string[]): readonly string[] {
  const manifest = createRequire(import.meta.url).resolve("wrangler/package.json");
  return [process.execPath, join(dirname(manifest), "bin", "wrangler.js"), ...args];
}

/**
 * The environment in which wrangler asks nothing of the network. Its registry of running Workers and
 * its logs go to `folder`: the shared ones would connect two runs on one machine to each other.
 */
export function wranglerEnvironment(folder: string): Record<string, string | undefined> {
  const inherited = Object.entries(process.env).filter(([name]) => !PROXY_VARIABLES.test(name));
  return {
    ...Object.fromEntries(inherited),
    ...OFFLINE,
    WRANGLER_REGISTRY_PATH: join(folder, "registry"),
    WRANGLER_LOG_PATH: join(folder, "logs"),
  };
}
