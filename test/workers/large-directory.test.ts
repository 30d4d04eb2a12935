import { abortAllDurableObjects, reset, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, test } from "vitest";
import type { Thing } from "../../src/tenants/configuration-rows.ts";
import { orRefuse, uploadConfiguration } from "../../workers/apply-configuration.ts";
import { DIRECTORY_NAME } from "../../workers/directory-object.ts";
import { ACCESS_QUERY } from "../../workers/stored-access.ts";
import { largeConfiguration, largeKey } from "../support/large-configuration.ts";
import { hashOfKey } from "./support/configuration.ts";

afterEach(reset);

/** A tenth of what there may be: what grows faster than it should is seen here, and in seconds. */
const SIZE = { tenantCount: 1_000, keysPerTenant: 10 };
const LAST_KEY = largeKey(SIZE.tenantCount - 1, SIZE.keysPerTenant - 1);

const directory = () => env.DIRECTORY.getByName(DIRECTORY_NAME);

async function apply(things: Iterable<Thing>) {
  const wish = { actor: "test", action: "apply", reason: "" };
  return orRefuse(await uploadConfiguration(things, env, (upload) => upload.commit(wish)));
}

/** The configuration, in which the last tenant has a lower limit. */
function* withLowerLimit(): Generator<Thing> {
  for (const entry of largeConfiguration(SIZE, hashOfKey)) {
    const isLast =
      entry.kind === "tenant" && entry.thing.tenantId === `tenant-${SIZE.tenantCount - 1}`;
    yield isLast ? { ...entry, thing: { ...entry.thing, tokensPerMinuteMax: 7 } } : entry;
  }
}

const isIndexed = (detail: string) =>
  /^SEARCH .* USING (PRIMARY KEY|INDEX sqlite_autoindex_live_rows_1) \((kind=\? AND id=\?|id=\?|hash=\?)\)/.test(
    detail,
  );

test("ten thousand keys are applied, looked up, changed and rolled back as a few are", async () => {
  const keyCount = SIZE.tenantCount * SIZE.keysPerTenant;
  expect(await apply(largeConfiguration(SIZE, hashOfKey))).toMatchObject({
    version: 1,
    changes: { added: 3 + SIZE.tenantCount + keyCount },
  });
  expect(await apply(largeConfiguration(SIZE, hashOfKey))).toMatchObject({ kind: "unchanged" });
  // What a version keeps is what it changed, however much there is beside it.
  expect(await apply(withLowerLimit())).toMatchObject({
    version: 2,
    changes: { added: 0, changed: 1, removed: 0 },
  });
  const past = await runInDurableObject(directory(), (_object, { storage }) =>
    storage.sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM past_rows").one(),
  );
  expect(past.n).toBe(1);

  await abortAllDurableObjects();
  const found = async () => directory().lookup(hashOfKey(LAST_KEY));
  const tenant = { tenantId: `tenant-${SIZE.tenantCount - 1}`, tokensPerMinuteMax: 7 };
  expect(await found()).toMatchObject({ kind: "known", access: { tenant, keyName: "key-9" } });
  expect(await directory().lookup(hashOfKey("sk-large-none"))).toEqual({ kind: "unknown" });
  expect(await directory().summary()).toMatchObject({ tenantCount: SIZE.tenantCount, keyCount });
  expect(await directory().tenants("tenant-998", 10)).toMatchObject([tenant]);

  await directory().rollBack(1, { actor: "test", reason: "" });
  expect(await found()).toMatchObject({
    access: { tenant: { tokensPerMinuteMax: 400_000 + SIZE.tenantCount - 1 } },
  });
});

test("a key is found by indexes alone, so its look-up does not grow with what there is", async () => {
  await apply(largeConfiguration({ tenantCount: 3, keysPerTenant: 2 }, hashOfKey));
  const plan = await runInDurableObject(directory(), (_object, { storage }) =>
    storage.sql
      .exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${ACCESS_QUERY}`, hashOfKey(LAST_KEY))
      .toArray()
      .map(({ detail }) => detail),
  );
  const steps = plan.filter((detail) => /^(SEARCH|SCAN)/.test(detail));
  expect(steps.filter((detail) => !isIndexed(detail))).toEqual([]);
  // The two places where a key may stand, and of either its tenant and what was said of its end.
  expect(steps).toHaveLength(6);
});
