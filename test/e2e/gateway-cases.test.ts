import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TestContext } from "vitest";
import { expect, onTestFinished, test } from "vitest";
import { parse as parseYaml } from "yaml";
import * as z from "zod";
import { takeFreePorts } from "../support/free-ports.ts";
import type { RunningGateway } from "./support/miniflare-gateway.ts";
import { startMiniflareGateway } from "./support/miniflare-gateway.ts";
import { RunningStack } from "./support/running-stack.ts";

// Faults that users of other gateways reported, as black-box cases: a runner that is not part of this
// repository plays the client and the upstream. Each kind has tests of our own as well, which
// docs/decisions/0705 lists.

const CONFIGURATION = new URL("gateway-cases/sluice.yaml", import.meta.url);
const KEYS = new URL("gateway-cases/keys.json", import.meta.url);
const RUN_MS_MAX = 240_000;

const File = z.object({
  tenants: z.record(z.string(), z.object({ keys: z.tuple([z.object({ key: z.string() })]) })),
});

test("the keys beside the configuration of the cases are those in it", () => {
  const { tenants } = File.parse(parseYaml(readFileSync(CONFIGURATION, "utf8")));
  const keys = Object.entries(tenants).map(
    ([
      tenant,
      {
        keys: [own],
      },
    ]) => [tenant, own.key],
  );
  expect(JSON.parse(readFileSync(KEYS, "utf8"))).toEqual(Object.fromEntries(keys));
});

const HOSTS: readonly (readonly [
  string,
  (file: URL, ports: readonly number[]) => Promise<RunningGateway>,
])[] = [
  ["wrangler dev", (file, ports) => RunningStack.readyWith(file, ports)],
  ["Miniflare", startMiniflareGateway],
];

test.for(HOSTS)(
  "a gateway under %s in front of scripted servers passes every case",
  { timeout: RUN_MS_MAX },
  async ([, startGateway], context: TestContext) => {
    const folder = process.env["SLUICE_SHARED"];
    if (folder === undefined) context.skip("SLUICE_SHARED names no folder with cases");
    const runner = join(folder, "cases", "run-gateway-cases.mjs");
    if (!existsSync(runner)) context.skip(`${runner} is not there`);
    const upstreamPort = await takeNeighbours();
    const gateway = await startGateway(CONFIGURATION, [upstreamPort, upstreamPort + 1]);
    onTestFinished(() => gateway.dispose());
    const { default: key } = z
      .object({ default: z.string() })
      .parse(JSON.parse(readFileSync(KEYS, "utf8")));
    const words = ["--gateway", gateway.gatewayUrl, "--key", key, "--keys-file", KEYS.pathname];
    const usage = ["--usage-url", `${gateway.gatewayUrl}/v1/usage`];
    const run = [runner, ...words, "--upstream-port", String(upstreamPort), ...usage];
    const { stdout } = await promisify(execFile)(process.execPath, run, { timeout: RUN_MS_MAX })
      // It fails with the number of failed cases, and what it printed says which.
      .catch((error: { readonly stdout: string }) => error);
    expect(stdout).toMatch(/^\d+ passed, 0 failed$/m);
  },
);

/** Finds two free ports side by side, and returns the first. */
async function takeNeighbours(): Promise<number> {
  for (let attempt = 0; attempt < 20; attempt++) {
    // oxlint-disable-next-line no-await-in-loop -- one pair is enough
    const [first = 0, second] = await takeFreePorts(2);
    if (second === first + 1) return first;
  }
  throw new Error("No two ports side by side are free");
}
