import { expect, test } from "vitest";
import { listDemoKeys, warnOfDemoKeys } from "../../../cli/stack/demo-keys.ts";
import { LiveConfiguration } from "../../../src/tenants/live-configuration.ts";

const CONFIGURATION = LiveConfiguration.parse({
  models: ["sluice-tiny", "other"].map((modelId) => ({
    modelId,
    poolId: "local",
    upstreamModel: "sluice-tiny",
    contextTokens: 2048,
  })),
  pools: [{ poolId: "local", engine: "sluice", replicas: [], queueMax: 8 }],
  tenants: ["acme", "guests"].map((tenantId) => ({
    tenantId,
    modelIds: tenantId === "acme" ? ["sluice-tiny", "other"] : [],
    className: "chat",
    targets: {},
  })),
  keys: [],
});

test("only demo keys are listed, with the first model that their tenant may use", () => {
  const document = {
    models: {},
    tenants: {
      acme: {
        keys: [{ key: "sk-secret" }, { hash: "hmac-sha256:00" }, { key: "sk-sluice-demo-a" }],
      },
      guests: { keys: [{ name: "g", key: "sk-sluice-demo-g" }] },
      keyless: {},
    },
  };
  expect(listDemoKeys(document, CONFIGURATION)).toEqual([
    { tenant: "acme", key: "sk-sluice-demo-a", model: "sluice-tiny" },
    { tenant: "guests", key: "sk-sluice-demo-g" },
  ]);
});

test("demo keys on an address that other machines reach are warned of", () => {
  const demoKeys = [{ tenant: "chat", key: "sk-sluice-demo-chat" }];
  expect(warnOfDemoKeys("0.0.0.0", demoKeys)).toBe(
    "Warning: --host 0.0.0.0 lets other machines in, and anyone may know the demo keys",
  );
  expect(warnOfDemoKeys("127.0.0.1", demoKeys)).toBeUndefined();
  expect(warnOfDemoKeys("0.0.0.0", [])).toBeUndefined();
});
