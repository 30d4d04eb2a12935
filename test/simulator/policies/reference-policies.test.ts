import { expect, test } from "vitest";
import { REFERENCE_POLICIES } from "../../../simulator/policies/reference-policies.ts";
import type { Policy } from "../../../simulator/policies/policy.ts";
import { seededRandom } from "../../../src/base/random.ts";
import { chooser, replica, request } from "./policy-fixtures.ts";

const settings = {
  requestsPerMs: new Map([["tenant", 1]]),
  outstandingMax: 100,
  initialLimit: 100,
};

test("every policy sends an idle pool's request to one of its replicas, at once or by its queue", () => {
  const replicas = [replica(3), replica(7)];
  for (const policyOf of Object.values(REFERENCE_POLICIES)) {
    const policy: Policy = policyOf(settings);
    const moment = { nowMs: 0, random: seededRandom(1) };
    const asked = request();
    const verdict = policy.choose(asked, replicas, moment);
    const sent = verdict.kind === "wait" ? policy.next?.([asked], replicas, moment) : verdict;
    expect(sent).toMatchObject({ replicaIndex: expect.toSatisfy((at) => [3, 7].includes(at)) });
  }
});

test("every policy rejects when no replica is up", () => {
  for (const policyOf of Object.values(REFERENCE_POLICIES)) {
    expect(chooser(policyOf(settings))([])).toBeUndefined();
  }
});
