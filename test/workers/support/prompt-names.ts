import { env } from "cloudflare:workers";
import { CHAT } from "../../../src/protocol/operation.ts";
import { toChain } from "../../../src/protocol/prompt-chain.ts";
import { requestKeysOf } from "../../../workers/request-keys.ts";
import { settingsOf } from "../../../workers/settings.ts";
import { aLiveConfiguration } from "./configuration.ts";
import type { TestGateway } from "./gateway.ts";

/** The names that a gateway has for what a prompt of its tenant begins with. */
export function namesOf({ tenantId, modelId }: TestGateway, body: object): string {
  const [tenant] = aLiveConfiguration({ tenants: [{ tenantId }], keys: [] }).tenants;
  const outline = CHAT.outline({ model: modelId, ...body });
  if (tenant === undefined || outline.kind !== "valid") throw new Error("Expected a valid request");
  const request = { upstreamModel: "sluice-tiny", caching: outline.value.caching };
  const keys = requestKeysOf(request, { tenant, cacheGeneration: 0 }, settingsOf(env));
  return toChain(keys.hashes, keys.promptBytes).keys;
}
