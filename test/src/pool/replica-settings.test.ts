import { describe, expect, test } from "vitest";
import { replicaSettingsOf } from "../../../src/pool/replica-settings.ts";
import { aLivePool } from "../../support/pool-builders.ts";

/** The weights that a pool goes by where its configuration says these. */
function weightsBy(configured: readonly (number | undefined)[]) {
  const pool = aLivePool(configured.length);
  const replicas = pool.replicas.map((replica, index) => {
    const weight = configured[index];
    return weight === undefined ? replica : { ...replica, weight };
  });
  return replicaSettingsOf({ ...pool, replicas }).map(({ weight }) => weight);
}

describe("replicaSettingsOf()", () => {
  test.each([
    [
      [10, 30],
      [1, 3],
    ],
    [
      [4, undefined, 2],
      [4, 1, 2],
    ],
    [
      [7, 7],
      [undefined, undefined],
    ],
    [
      [1, undefined],
      [undefined, undefined],
    ],
    [[5], [undefined]],
  ])(
    "takes weights %j for parts of %j, since only how they differ says something",
    (said, parts) => {
      expect(weightsBy(said)).toEqual(parts);
    },
  );
});
