import { CHAT } from "../../src/protocol/operation.ts";
import { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import { requestKeysOf } from "../../workers/request-keys.ts";

const [tenant] = LiveConfiguration.parse({
  models: [],
  pools: [],
  keys: [],
  tenants: [{ tenantId: "tenant", modelIds: [], className: "chat", targets: {} }],
}).tenants;

/** Derives the keys of a prompt of so many bytes, so many times, and does nothing else. */
export default {
  fetch(request) {
    const { searchParams } = new URL(request.url);
    const bytes = Number(searchParams.get("bytes"));
    const content = "the quick brown fox ".repeat(Math.ceil(bytes / 20)).slice(0, bytes);
    const outline = CHAT.outline({ model: "m", messages: [{ role: "user", content }] });
    if (outline.kind !== "valid" || tenant === undefined)
      return new Response(null, { status: 500 });
    const { caching } = outline.value;
    const access = { tenant, cacheGeneration: 0 };
    const settings = { cacheMaster: new Uint8Array(32).fill(7) };
    let hashes = 0;
    for (let time = 0; time < Number(searchParams.get("times")); time += 1) {
      hashes += requestKeysOf({ upstreamModel: "m", caching }, access, settings).hashes.length;
    }
    return new Response(String(hashes));
  },
};
