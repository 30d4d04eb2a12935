import { join } from "node:path";
import { Miniflare } from "miniflare";
import { applyConfiguration } from "../../../cli/admin-client.ts";
import { buildBundle } from "../../../cli/bundle.ts";
import { keyHasher, requireConfigurationFile } from "../../../cli/read-configuration.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../../cli/stack/secrets.ts";
import { readPlatform } from "../../../cli/workerd-config.ts";
import { writeLocalConfiguration } from "../../support/local-configuration.ts";

/** A gateway that can be disposed of. */
export interface RunningGateway {
  readonly gatewayUrl: string;
  dispose(): Promise<void>;
}

/** Starts the Worker as it is bundled for deployment under Miniflare, with a configuration. */
export async function startMiniflareGateway(
  original: URL,
  replicaPorts: readonly number[],
): Promise<RunningGateway> {
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
    bindings: { SLUICE_MODE: "local", ...secrets },
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
    const file = writeLocalConfiguration(folder.path, replicaPorts, original);
    const hashKey = keyHasher(secrets.SLUICE_KEY_PEPPER);
    const { configuration } = await requireConfigurationFile(file, { mode: "local", hashKey });
    const access = { gatewayUrl, adminKey: secrets.SLUICE_ADMIN_KEY };
    await applyConfiguration(access, configuration, undefined);
    return { gatewayUrl, dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}
