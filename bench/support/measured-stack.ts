import { join } from "node:path";
import { buildEngine } from "../../cli/engine-build.ts";
import { keyHasher, requireConfigurationFile } from "../../cli/read-configuration.ts";
import { listDemoKeys } from "../../cli/stack/demo-keys.ts";
import { toLocalUrl } from "../../cli/stack/gateway-child.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import type { Secrets } from "../../cli/stack/secrets.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";
import { runStack } from "../../cli/stack/stack.ts";
import type { StackPlan } from "../../cli/stack/stack-plan.ts";
import { planStack } from "../../cli/stack/stack-plan.ts";
import { assert } from "../../src/base/assert.ts";
import { ENGINE_HEADERS } from "../../src/protocol/headers.ts";
import { takeFreePorts } from "../../test/support/free-ports.ts";
import { writeLocalConfiguration } from "../../test/support/local-configuration.ts";
import type { TimedRequest } from "./timed-request.ts";
import { planWorkerdChild, workerdCommand } from "./workerd-child.ts";

/** Two ways to one engine: straight, and through the gateway. */
export interface MeasuredStack {
  readonly model: string;
  readonly engineUrl: string;
  /** What is in it is removed when the measurement is over. */
  readonly folder: string;
  /** The command line of the gateway's process. */
  readonly gatewayCommand: readonly string[];
  readonly direct: Pick<TimedRequest, "url" | "headers">;
  readonly gateway: Pick<TimedRequest, "url" | "headers">;
  /** The same for each tenant of the configuration. */
  readonly tenants: readonly Pick<TimedRequest, "headers">[];
  readonly keys: readonly string[];
  readonly gatewayUrl: string;
  readonly engineUrls: readonly string[];
  /** What the engines ask of those who read their metrics. */
  readonly replicaSecret: string;
  /** By which an operator asks the gateway. */
  readonly admin: Pick<TimedRequest, "url" | "headers">;
}

/** What is other than in `sluice up`. */
export interface StackVariant {
  /** Instead of `sluice.local.yaml`. */
  readonly configuration?: URL;
  /** Sources of the engine that others stand in for; see `buildEngine()`. */
  readonly replacedSources?: ReadonlyMap<string, string>;
}

const ROUTE = "/v1/chat/completions";

/**
 * Starts one engine, or more, and the gateway under `workerd serve`, hands over both ways to the engine, and
 * ends all of it when `measure` is done or has failed.
 */
export async function withMeasuredStack<Result>(
  measure: (stack: MeasuredStack) => Promise<Result>,
  engineCount: 1 | 2 = 1,
  variant: StackVariant = {},
): Promise<Result> {
  const [gatewayPort = 0, ...replicaPorts] = await takeFreePorts(3);
  const address = { host: "127.0.0.1", port: gatewayPort };
  const secrets = provideSecrets({});
  const folder = createRunFolder();
  const stop = new AbortController();
  try {
    const buildFolder = join(folder.path, "engine");
    await buildEngine(buildFolder, variant.replacedSources);
    const file = writeLocalConfiguration(folder.path, replicaPorts, variant.configuration);
    const { plan, demoKey, keys } = await planEngines(file, secrets, engineCount);
    const [engine] = plan.engines;
    assert(engine !== undefined, "a plan for one replica has an engine");
    const childPlan = await planWorkerdChild(address, folder, secrets);
    const stack: MeasuredStack = {
      model: demoKey.model,
      engineUrl: engine.endpointUrl,
      folder: folder.path,
      gatewayCommand: workerdCommand(folder),
      direct: {
        url: `${engine.endpointUrl}${ROUTE}`,
        headers: {
          authorization: `Bearer ${secrets.SLUICE_REPLICA_SECRET}`,
          [ENGINE_HEADERS.cacheSalt]: "bench",
        },
      },
      gateway: {
        url: `${toLocalUrl("http", address)}${ROUTE}`,
        headers: { authorization: `Bearer ${demoKey.key}` },
      },
      keys,
      gatewayUrl: toLocalUrl("http", address),
      engineUrls: plan.engines.map(({ endpointUrl }) => endpointUrl),
      replicaSecret: secrets.SLUICE_REPLICA_SECRET,
      tenants: keys.map((key) => ({ headers: { authorization: `Bearer ${key}` } })),
      admin: {
        url: `${toLocalUrl("http", address)}/admin/v1`,
        headers: { authorization: `Bearer ${secrets.SLUICE_ADMIN_KEY}` },
      },
    };
    let measuring: Promise<Result> | undefined;
    await runStack(
      {
        plan,
        toPortNeed: ({ name, host, port }) => ({ host, port, needer: name, ...PORT_REMEDIES }),
        gateway: { address, childPlan },
        secrets,
        engineOptions: {
          precision: "int8",
          runtime: "wasm",
          kvHostMib: 0,
          modelFolder: undefined,
          buildFolder,
        },
        report: () => undefined,
        onLine: () => undefined,
      },
      { stop: stop.signal, kill: stop.signal },
      () => {
        measuring = measure(stack).finally(() => stop.abort());
        // It is awaited below, once all has stopped; until then a failure must not go unhandled.
        measuring.catch(() => undefined);
      },
    );
    assert(measuring !== undefined, "a stack stops only once it was measured");
    return await measuring;
  } finally {
    folder.remove();
  }
}

/** The ports are drawn from free ones, so another run finds others. */
const PORT_REMEDIES = { remedy: "run it again", hostRemedy: "run it again" };

async function planEngines(
  file: string,
  secrets: Secrets,
  engineCount: number,
): Promise<{
  readonly keys: readonly string[];
  readonly plan: StackPlan;
  readonly demoKey: { readonly key: string; readonly model: string };
}> {
  const source = await requireConfigurationFile(file, {
    mode: "local",
    hashKey: keyHasher(secrets.SLUICE_KEY_PEPPER),
  });
  const planned = planStack(source.configuration, engineCount);
  assert(planned.kind === "ok", "sluice.local.yaml can run on one machine");
  const demoKeys = listDemoKeys(source.document, planned.plan.configuration);
  const [demoKey] = demoKeys;
  assert(demoKey?.model !== undefined, "sluice.local.yaml has a demo key for a model");
  return {
    plan: planned.plan,
    demoKey: { key: demoKey.key, model: demoKey.model },
    keys: demoKeys.map(({ key }) => key),
  };
}
