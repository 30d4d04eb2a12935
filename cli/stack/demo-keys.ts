import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import type { DemoKey } from "./stack-event.ts";
import { isLoopbackHost } from "../../src/base/loopback-host.ts";
import * as z from "zod";

const DEMO_KEY_PREFIX = "sk-sluice-demo-";

/** The little of a document that names keys; the document as a whole was checked before. */
const PlainKeys = z.object({
  tenants: z.record(
    z.string(),
    z.object({ keys: z.array(z.object({ key: z.string().optional() })).optional() }),
  ),
});

/**
 * Lists the demo keys of a document: the only ones that may be shown, since they are public and
 * production refuses them. Every other key stays out of sight.
 */
export function listDemoKeys(
  document: unknown,
  configuration: LiveConfiguration,
): readonly DemoKey[] {
  const modelByTenant = new Map(
    configuration.tenants.map(({ tenantId, modelIds }) => [String(tenantId), modelIds[0]]),
  );
  return Object.entries(PlainKeys.parse(document).tenants).flatMap(([tenant, { keys = [] }]) =>
    keys
      .map(({ key }) => key ?? "")
      .filter((key) => key.startsWith(DEMO_KEY_PREFIX))
      .map((key) => {
        const model = modelByTenant.get(tenant);
        return { tenant, key, ...(model === undefined ? {} : { model }) };
      }),
  );
}

/** Says so where a gateway with demo keys listens on an address that other machines reach. */
export function warnOfDemoKeys(host: string, demoKeys: readonly DemoKey[]): string | undefined {
  if (isLoopbackHost(host) || demoKeys.length === 0) return undefined;
  return `Warning: --host ${host} lets other machines in, and anyone may know the demo keys`;
}
