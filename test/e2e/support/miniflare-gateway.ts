import { join } from "node:path";
import { Miniflare } from "miniflare";
import { applyConfiguration } from "../../../cli/admin-client.ts";
import { buildBundle } from "../../../cli/bundle.ts";
import { keyHasher, requireConfigurationFile } from "../../../cli/read-configuration.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import type { Secrets } from "../../../cli/stack/secrets.ts";
import { provideSecrets } from "../../../cli/stack/secrets.ts";
import { readPlatform } from "../../../cli/workerd-config.ts";
import { writeLocalConfiguration } from "../../support/local-configuration.ts";

/** A gateway that can be disposed of. */
export interface RunningGateway {
  readonly gatewayUrl: string;
  dispose(): Promise<void>;
}

/** A gateway without a configuration, with what opens it. */
export interface BareGateway extends RunningGateway {
  readonly secrets: Secrets;
  /** For files of a test. */
  readonly folder: string;
}

/** Starts the Worker as it is bundled for deployment under Miniflare, with a configuration. */
export async function startMiniflareGateway(
  original: URL,
  replicaPorts: readonly number[],
): Promise<RunningGateway> {
  const gateway = await startBareGateway("local");
  const { gatewayUrl, secrets } = gateway;
  try {
    const file = writeLocalConfiguration(gateway.folder, replicaPorts, original);
    const hashKey = keyHasher(secrets.SLUICE_KEY_PEPPER);
    const { configuration } = await requireConfigurationFile(file, { mode: "local", hashKey });
    await applyConfiguration({ gatewayUrl, adminKey: secrets.SLUICE_ADMIN_KEY }, configuration);
    return gateway;
  } catch (error) {
    await gateway.dispose();
    throw error;
  }
}

/** Starts the Worker likewise, and leaves its configuration to the test. */
export async function startBareGateway(mode: "local" | "production"): Promise<BareGateway> {
  const folder = createRunFolder();
  const secrets = provideSecrets({});
  const bundle = await buildBundle(join(folder.path, "bundle"));
  const platform = await readPlatform();
  const miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    modules: true,
    modulesRoot: join(folder.path, "bundle"),
    scriptPath: bundle.file,
    compatibilityDate: platform.compatibility_date,
    compatibilityFlags: platform.compatibility_flags,
    bindings: { SLUICE_MODE: mode, ...secrets },
    durableObjects: Object.fromEntries(
      platform.durable_objects.bindings.map(({ name, class_name: className }) => [
        name,
        { className, useSQLite: true },
      ]),
    ),
    durableObjectsPersist: join(folder.path, "objects"),
  });
  const dispose = async (): Promise<void> => {
    await miniflare.dispose();
    folder.remove();
  };
  try {
    const gatewayUrl = (await miniflare.ready).origin;
    return { gatewayUrl, secrets, folder: folder.path, dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}
