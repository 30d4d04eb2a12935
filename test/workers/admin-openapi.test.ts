import { expect, test } from "vitest";
import { adminOpenApi } from "../../src/tenants/admin-openapi.ts";
import { adminRoutes } from "../../workers/routes/admin.ts";

test("the document of the admin API has all that it does, and nothing else", () => {
  const served = adminRoutes.routes
    .filter(({ method }) => method !== "ALL")
    .map(
      ({ method, path }) =>
        `${method} ${path.replaceAll(/:(\w+)/g, "{$1}").replace(/(.)\/$/, "$1")}`,
    );
  const { paths } = adminOpenApi();
  const described = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(described.toSorted()).toEqual(served.toSorted());
});
