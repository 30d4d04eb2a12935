import { reset } from "cloudflare:test";
import { afterEach, expect, test } from "vitest";
import { adminOpenApi } from "../../src/tenants/admin-openapi.ts";
import { tellAdmin } from "./support/admin.ts";
import { aLiveConfiguration, applyConfiguration } from "./support/configuration.ts";

afterEach(reset);

const NOBODY = "no body";
const PLACES = { "{tenant}": "tenant", "{key}": "key", "{pool}": "pool" } as const;

/** What each route needs to get as far as asking for what it is about. */
const BODIES: Readonly<Record<string, object>> = {
  "post /tenants/{tenant}/keys": { name: "app" },
  "post /tenants/{tenant}/keys/{key}/rotate": {},
  "patch /tenants/{tenant}": { tenant: {} },
};

test("the admin API names what it does not find, on every route that is about a named thing", async () => {
  await applyConfiguration(aLiveConfiguration());
  const routes = Object.entries(adminOpenApi().paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ method, path })),
  );
  const named = routes.flatMap(({ method, path }) =>
    Object.entries(PLACES).flatMap(([place, kind]) =>
      path.includes(place) ? [{ method, path, place, kind }] : [],
    ),
  );
  expect(named.length).toBeGreaterThan(14);
  for (const { method, path, place, kind } of named) {
    const filled = path
      .replace(place, encodeURIComponent(NOBODY))
      .replace("{tenant}", "tenant-a")
      .replace("{key}", "key-1");
    const body = BODIES[`${method} ${path}`];
    // oxlint-disable-next-line no-await-in-loop -- one after the other
    const answer = await tellAdmin(filled, {
      method: method.toUpperCase(),
      ...(body !== undefined && { body }),
    });
    const message =
      kind === "key"
        ? `The tenant 'tenant-a' has no key '${NOBODY}'`
        : `There is no ${kind} '${NOBODY}'`;
    expect({ method, path, ...answer }).toEqual({
      method,
      path,
      status: 404,
      body: { error: { message, type: "invalid_request_error", param: kind, code: "not_found" } },
    });
  }
  expect((await tellAdmin(`/slo?tenant=nobody`)).body).toMatchObject({
    error: { message: "There is no tenant 'nobody'" },
  });
  const long = await tellAdmin(`/tenants/${"x".repeat(5_000)}`);
  expect(JSON.stringify(long.body).length).toBeLessThan(250);
});
