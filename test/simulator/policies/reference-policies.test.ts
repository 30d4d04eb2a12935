import { expect, test } from "vitest";
import { REFERENCE_POLICIES } from "../../../simulator/policies/reference-policies.ts";
import { chooser, replica } from "./policy-fixtures.ts";

const settings = {
  requestsPerMs: new Map([["tenant", 1]]),
  outstandingMax: 100,
  initialLimit: 100,
};

test("every policy sends an idle pool's request to one of its replicas", () => {
  for (const policyOf of Object.values(REFERENCE_POLICIES)) {
    expect([3, 7]).toContain(chooser(policyOf(settings))([replica(3), replica(7)]));
  }
});

test("every policy rejects when no replica is up", () => {
  for (const policyOf of Object.values(REFERENCE_POLICIES)) {
    expect(chooser(policyOf(settings))([])).toBeUndefined();
  }
});
