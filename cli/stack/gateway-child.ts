import { join } from "node:path";
import { PACKAGE_ROOT, wranglerCommand, wranglerEnvironment } from "../wrangler.ts";
import type { ChildPlan } from "./child.ts";
import type { RunFolder } from "./run-folder.ts";
import type { Secrets } from "./secrets.ts";
import { toEnvFile } from "./secrets.ts";

/** Where the gateway listens. */
export interface GatewayAddress {
  readonly host: string;
  readonly port: number;
}

/**
 * Returns how to start the Worker under `wrangler dev`, behind a keeper that ends it when we are
 * gone. The secrets go through a file of the run folder that nobody else can read.
 */
export function planGatewayChild(
  address: GatewayAddress,
  folder: RunFolder,
  secrets: Secrets,
  poolSecrets: Readonly<Record<string, string>> = {},
): Omit<ChildPlan, "onLine"> {
  const envFile = folder.writeSecret(
    "gateway.env",
    toEnvFile({ ...poolSecrets, SLUICE_MODE: "local", ...secrets }),
  );
  const flags = {
    "--config": join(PACKAGE_ROOT, "wrangler.toml"),
    "--ip": address.host,
    "--port": String(address.port),
    // Giving one also keeps a developer's own .dev.vars out of this run.
    "--env-file": envFile,
    "--persist-to": join(folder.path, "state"),
    "--show-interactive-dev-session": "false",
  };
  return {
    command: [
      process.execPath,
      join(PACKAGE_ROOT, "cli", "keeper.mjs"),
      folder.path,
      ...wranglerCommand(["dev", ...Object.entries(flags).flat()]),
    ],
    folder: PACKAGE_ROOT,
    environment: wranglerEnvironment(folder.path),
  };
}

/** Returns the URL under which this machine reaches what listens on `host`. */
export function toLocalUrl(scheme: "http" | "ws", { host, port }: GatewayAddress): string {
  const reachable = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
  return `${scheme}://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}

/**
 * Recognises wrangler's complaint that it cannot build or start the Worker. It then goes on waiting
 * for an edit, which at start would look like a gateway that never gets ready.
 */
export function isBuildFailure(line: string): boolean {
  return line.includes("[ERROR]");
}
