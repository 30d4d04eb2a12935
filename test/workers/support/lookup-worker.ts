import { createHmac } from "node:crypto";
import * as z from "zod";
import { orRefuse, uploadConfiguration } from "../../../workers/apply-configuration.ts";
import { ACCESS_FRESH_MS, ACCESS_LAST_GOOD_MS } from "../../../src/tenants/access-cache.ts";
import { authenticate } from "../../../workers/auth.ts";
import { settingsOf } from "../../../workers/settings.ts";
import type { Env } from "../../../workers/env.ts";
import { largeConfiguration, largeKey } from "../../support/large-configuration.ts";

export { DirectoryObject } from "../../../workers/directory-object.ts";

const Query = z.object({
  name: z.string(),
  tenants: z.coerce.number(),
  keys: z.coerce.number(),
  count: z.coerce.number().default(0),
  first: z.coerce.number().default(0),
});

/** Spreads the keys that are asked for over all that there are; prime to every number of them. */
const STRIDE = 7_919;
/** A key's requests within the five seconds for which an edge does not ask again. */
const REQUESTS_A_KEY = 20;
/** And how many such times follow on one another before other keys' come. */
const TIMES_A_KEY = 12;
const BEGIN_AT_MS = 1_800_000_000_000;
/** The Worker has it as its pepper. */
const PEPPER = "sluice-local-key-pepper-of-the-bench";

/** A Worker with two directories in one process, a small one and a large one, for `bench/lookup.ts`. */
export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const query = Query.parse(Object.fromEntries(searchParams));
    const own = withDirectory(query.name, env);
    if (pathname === "/fill") return Response.json(await fill(query, own));
    if (pathname === "/lookup") return Response.json(await lookUp(query, own));
    return Response.json(await authenticateAll(query, own));
  },
};

/** The environment of an edge that has this directory. */
function withDirectory(name: string, env: Env): Env {
  const directory = env.DIRECTORY.getByName(name);
  const namespace: unknown = { getByName: () => directory };
  // oxlint-disable-next-line no-unsafe-type-assertion -- the one method that is called
  return { ...env, DIRECTORY: namespace as Env["DIRECTORY"] };
}

async function fill({ name, tenants, keys }: z.output<typeof Query>, env: Env) {
  const size = { tenantCount: tenants, keysPerTenant: keys };
  const wish = { actor: "bench", action: "apply", reason: "" };
  const beganAtMs = Date.now();
  const things = largeConfiguration(size, (key) => hashOf(`${key}-${name}`));
  const applied = await uploadConfiguration(things, env, (upload) => upload.commit(wish));
  return { version: orRefuse(applied).version, ms: Date.now() - beganAtMs };
}

/** Looks keys up one after the other, and tells how many of them were there. */
async function lookUp(query: z.output<typeof Query>, env: Env) {
  const hashes = keysOf(query, query.count).map(hashOf);
  const directory = env.DIRECTORY.getByName(query.name);
  let known = 0;
  for (const hash of hashes) {
    // oxlint-disable-next-line no-await-in-loop -- one after the other is what is measured
    using found = await directory.lookup(hash);
    if (found.kind === "known") known += 1;
  }
  return { known };
}

/** Authenticates requests of keys that are used for a minute, several times while an edge remembers them. */
async function authenticateAll(query: z.output<typeof Query>, env: Env) {
  const headers = keysOf(query, query.count / REQUESTS_A_KEY / TIMES_A_KEY).map(
    (key) => new Headers({ authorization: `Bearer ${key}` }),
  );
  // Of a time of its own, at which nothing is remembered of the measurement before.
  const beginAtMs = BEGIN_AT_MS + query.first * ACCESS_LAST_GOOD_MS;
  const wish = { env, settings: settingsOf(env), scope: "inference" as const };
  let known = 0;
  for (let turn = 0; turn < TIMES_A_KEY * REQUESTS_A_KEY; turn += 1) {
    const nowMs = beginAtMs + Math.floor(turn / REQUESTS_A_KEY) * ACCESS_FRESH_MS;
    for (const own of headers) {
      // oxlint-disable-next-line no-await-in-loop -- as above
      await authenticate(own, { ...wish, nowMs });
      known += 1;
    }
  }
  return { known };
}

/** Other keys each time, spread over all that there are. */
function keysOf({ name, tenants, keys, first }: z.output<typeof Query>, count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    const number = ((first + index) * STRIDE) % (tenants * keys);
    return `${largeKey(Math.floor(number / keys), number % keys)}-${name}`;
  });
}

function hashOf(key: string): string {
  return createHmac("sha256", PEPPER).update(key).digest("hex");
}
