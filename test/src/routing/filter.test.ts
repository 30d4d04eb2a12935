import { describe, expect, test } from "vitest";
import { ReplicaId } from "../../../src/protocol/ids.ts";
import type { FitnessFacts } from "../../../src/replicas/replica-state.ts";
import { whyNot } from "../../../src/routing/filter.ts";

const replicaId = ReplicaId.parse("http://replica:8000");
const fit: FitnessFacts = {
  replicaId,
  hasModel: true,
  isReady: true,
  isEjected: false,
  freeSlots: 1,
};
const anybody = { excludedReplicaIds: [] };

describe("whyNot", () => {
  test("finds nothing wrong with a ready replica that has a slot", () => {
    expect(whyNot(fit, anybody)).toBeUndefined();
  });

  test("names each thing that can be wrong", () => {
    expect(whyNot(fit, { excludedReplicaIds: [replicaId] })).toBe("excluded");
    expect(whyNot({ ...fit, isReady: false }, anybody)).toBe("not-ready");
    expect(whyNot({ ...fit, hasModel: false }, anybody)).toBe("model");
    expect(whyNot({ ...fit, isEjected: true }, anybody)).toBe("ejected");
    expect(whyNot({ ...fit, freeSlots: 0 }, anybody)).toBe("full");
  });

  test("takes no notice of the name that clients use for the model", () => {
    const offer = { ...anybody, modelId: "what clients call it" };
    expect(whyNot(fit, offer)).toBeUndefined();
  });

  test("names what no waiting removes before what waiting may", () => {
    const fine = { isReady: true, hasModel: true };
    const bad: FitnessFacts = {
      ...fit,
      isReady: false,
      hasModel: false,
      isEjected: true,
      freeSlots: 0,
    };
    expect(whyNot(bad, { excludedReplicaIds: [replicaId] })).toBe("excluded");
    expect(whyNot(bad, anybody)).toBe("not-ready");
    expect(whyNot({ ...bad, isReady: true }, anybody)).toBe("model");
    expect(whyNot({ ...bad, ...fine }, anybody)).toBe("ejected");
  });
});
