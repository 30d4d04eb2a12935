import { expect, test } from "vitest";
import { adminOpenApi } from "../../../src/tenants/admin-openapi.ts";

test("docs/admin-openapi.json is what the schemas of the admin API say (npx vitest -u writes it)", async () => {
  const text = `${JSON.stringify(adminOpenApi(), undefined, 2)}\n`;
  await expect(text).toMatchFileSnapshot("../../../docs/admin-openapi.json");
});
