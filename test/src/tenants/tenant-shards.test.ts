import { describe, expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import { RequestId } from "../../../src/protocol/ids.ts";
import { partsOfShardName, placeOf, shardName } from "../../../src/tenants/tenant-shards.ts";

describe("placeOf()", () => {
  test("puts a request always at the same place, and many at all places alike", () => {
    const random = seededRandom(7);
    const counts = [0, 0, 0, 0];
    for (let index = 0; index < 4_000; index += 1) {
      const requestId = RequestId.parse(`req_${Math.floor(random() * 2 ** 48).toString(16)}`);
      const { shard } = placeOf("acme", 4, requestId);
      expect(placeOf("acme", 4, requestId).shard).toBe(shard);
      counts[shard] = (counts[shard] ?? 0) + 1;
    }
    expect(counts).toHaveLength(4);
    expect(Math.min(...counts)).toBeGreaterThan(900);
    expect(placeOf("acme", 1, RequestId.parse("r")).shard).toBe(0);
  });
});

describe("shardName()", () => {
  test("is the tenant's own for the first, and tells both parts again", () => {
    expect(shardName("acme", 0)).toBe("acme");
    expect([0, 1, 15].map((shard) => partsOfShardName(shardName("acme", shard)))).toEqual([
      { tenantId: "acme", shard: 0 },
      { tenantId: "acme", shard: 1 },
      { tenantId: "acme", shard: 15 },
    ]);
  });
});
