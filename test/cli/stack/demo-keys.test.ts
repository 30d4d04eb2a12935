import { expect, test } from "vitest";
import { listDemoKeys } from "../../../cli/stack/demo-keys.ts";
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
