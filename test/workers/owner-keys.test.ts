import { describe, expect, test } from "vitest";
import { TenantId } from "../../src/protocol/ids.ts";
import { ownerKeysOf } from "../../workers/owner-keys.ts";
import { aLiveConfiguration } from "./support/configuration.ts";

const SETTINGS = { cacheMaster: new Uint8Array(32).fill(7) };

function anOwner(tenant = "tenant-a", cacheGeneration = 0) {
  const tenants = [{ tenantId: TenantId.parse(tenant) }];
  const [whole] = aLiveConfiguration({ tenants, keys: [] }).tenants;
  if (whole === undefined) throw new Error("A configuration has the tenants that it is given");
  return { tenant: whole, cacheGeneration };
}

const NARROWINGS = [{}, { userName: "someone" }, { clientSalt: "mine" }, { userName: "other" }];
const MODELS = ["m@1", "m@2"];

describe("ownerKeysOf()", () => {
  test("gives the same, derived once or anew, in whatever order they are asked for", () => {
    const owners = [anOwner(), anOwner("tenant-b"), anOwner("tenant-a", 1)];
    const wishes = owners.flatMap((owner) =>
      MODELS.flatMap((model) => NARROWINGS.map((narrowing) => ({ owner, model, narrowing }))),
    );
    const anew = wishes.map(({ owner, model, narrowing }) =>
      ownerKeysOf({ ...owner }, model, narrowing, SETTINGS),
    );
    for (const order of [wishes, wishes.toReversed(), wishes]) {
      for (const { owner, model, narrowing } of order) {
        const index = wishes.findIndex(
          (wish) => wish.owner === owner && wish.model === model && wish.narrowing === narrowing,
        );
        expect(ownerKeysOf(owner, model, narrowing, SETTINGS)).toEqual(anew[index]);
      }
    }
    for (const valueOf of [
      (keys: (typeof anew)[number]) => keys.cacheSalt,
      (keys: (typeof anew)[number]) => keys.chainRoot.join(" "),
    ]) {
      expect(new Set(anew.map(valueOf)).size).toBe(wishes.length);
    }
    expect(new Set(anew.map(({ opaqueTenant }) => opaqueTenant)).size).toBe(2);
  });

  test("keeps what is a tenant's own, and nothing of what a client says of itself", () => {
    const owner = anOwner();
    const first = ownerKeysOf(owner, "m@1", {}, SETTINGS);
    expect(ownerKeysOf(owner, "m@1", {}, SETTINGS)).toBe(first);
    const narrowed = ownerKeysOf(owner, "m@1", { userName: "someone" }, SETTINGS);
    expect(ownerKeysOf(owner, "m@1", { userName: "someone" }, SETTINGS)).not.toBe(narrowed);
  });

  test("derives anew under another secret", () => {
    const owner = anOwner();
    const before = ownerKeysOf(owner, "m@1", {}, SETTINGS);
    const after = ownerKeysOf(owner, "m@1", {}, { cacheMaster: new Uint8Array(32).fill(8) });
    expect(after.cacheSalt).not.toBe(before.cacheSalt);
    expect(after.opaqueTenant).not.toBe(before.opaqueTenant);
    expect(ownerKeysOf(owner, "m@1", {}, SETTINGS)).toEqual(before);
  });
});
