import { abortAllDurableObjects, reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test } from "vitest";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import type { KeyLookup } from "../../workers/stored-access.ts";
import { tellAdmin } from "./support/admin.ts";
import {
  aLiveConfiguration,
  applyConfiguration,
  hashOfKey,
  TEST_KEY,
} from "./support/configuration.ts";

afterEach(reset);

const TENANT = "/tenants/tenant-a";

async function lookUp(state?: string): Promise<KeyLookup> {
  return env.DIRECTORY.getByName(DIRECTORY_NAME).lookup(hashOfKey(TEST_KEY), state);
}

/** The state in which the Directory says that it knows the key. */
async function knownState(): Promise<string> {
  const found = await lookUp();
  return found.kind === "known" ? found.access.directoryState : "";
}

describe("a look-up of what an edge knows already", () => {
  test("is answered with no more than that it is true still", async () => {
    await applyConfiguration(aLiveConfiguration());
    const state = await knownState();
    expect(await lookUp(state)).toEqual({ kind: "unchanged" });
    expect(await knownState()).toBe(state);
    expect(await lookUp("another")).toMatchObject({ kind: "known" });
  });

  test("is answered in full by an object that began anew", async () => {
    await applyConfiguration(aLiveConfiguration());
    const state = await knownState();
    await abortAllDurableObjects();
    expect(await lookUp(state)).toMatchObject({ kind: "known" });
  });

  test("of a configuration that is live already changes nothing", async () => {
    await applyConfiguration(aLiveConfiguration());
    const state = await knownState();
    await applyConfiguration(aLiveConfiguration());
    expect(await lookUp(state)).toEqual({ kind: "unchanged" });
  });

  test.each([
    ["a version", "/configuration/rollback", "POST", { version: 1 }],
    ["a change of a tenant", TENANT, "PATCH", { tenant: { concurrencyMax: 7 } }],
    ["the end of a tenant", TENANT, "DELETE", undefined],
    ["a new key", `${TENANT}/keys`, "POST", { name: "new" }],
    ["a key's rotation", `${TENANT}/keys/key-1/rotate`, "POST", { overlapMs: 1_000 }],
    ["a key's end", `${TENANT}/keys/key-1`, "DELETE", undefined],
    ["a purge", `${TENANT}/cache/purge`, "POST", undefined],
  ])("is answered anew after %s", async (_what, path, method, body) => {
    await applyConfiguration(aLiveConfiguration());
    await applyConfiguration(aLiveConfiguration({ model: { contextTokens: 4_096 } }));
    const state = await knownState();
    const { status } = await tellAdmin(path, { method, ...(body !== undefined && { body }) });
    expect(status).toBeLessThan(300);
    expect(await lookUp(state)).not.toEqual({ kind: "unchanged" });
    expect(await knownState()).not.toBe(state);
  });
});
