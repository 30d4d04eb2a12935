import { assert } from "../../src/base/assert.ts";
import type { Random } from "../../src/base/random.ts";
import { drawSeed, seededRandom } from "../../src/base/random.ts";
import type { ArrivalSpec } from "./arrival.ts";
import { arrivalTimes } from "./arrival-times.ts";
import type { RateShape } from "./rate-shape.ts";
import type { SampledRequest } from "./request-sampler.ts";
import { sampleRequest } from "./request-sampler.ts";
import { placedTurns, sessionTurns } from "./sessions.ts";
import type { TenantProfile } from "./tenant-profile.ts";
import { PREFIX_GROUPS_MAX } from "./tenant-profile.ts";
import { TimeMerge } from "./time-merge.ts";

/** Tenants and how much each of them sends; `tenantIndex` of an arrival is its place here. */
export interface Workload {
  readonly tenants: readonly TenantTraffic[];
}

/** One tenant's part in a workload. */
export interface TenantTraffic {
  readonly profile: TenantProfile;
  /** Mean over time of lone requests, or of sessions where the profile has them. */
  readonly startsPerSecond: number;
  readonly rateShapes: readonly RateShape[];
  /** Makes prompts longer from an instant on, at the same rate. */
  readonly promptChange?: PromptChange;
  /** Makes answers longer for a while, as when a model no longer finds an end. */
  readonly answerChange?: AnswerChange;
  /** Makes all of its requests fail at every replica for a while. */
  readonly poison?: Window;
}

/** A change of what is asked, which a limit on the number of requests cannot see. */
interface PromptChange {
  readonly fromMs: number;
  readonly factor: number;
  readonly promptTokensMax: number;
}

/** A change of what is answered, which nothing in a request foretells. */
interface AnswerChange extends Window {
  readonly factor: number;
}

/** From one instant on until another. */
export interface Window {
  readonly fromMs: number;
  readonly untilMs: number;
}

/**
 * Yields a workload's requests up to `untilMs` in order of time, one at a time.
 *
 * Every tenant has sequences of its own for instants and for sizes. So a scenario that changes one
 * tenant leaves all others exactly as they were, and differences between two runs are paired.
 */
export function* generateArrivals(
  workload: Workload,
  random: Random,
  untilMs: number,
): Generator<ArrivalSpec> {
  const merge = new TimeMerge<ArrivalSpec>();
  for (const [tenantIndex, traffic] of workload.tenants.entries()) {
    const { profile, startsPerSecond: meanPerSecond, rateShapes } = traffic;
    assert(profile.prefixes.groups <= PREFIX_GROUPS_MAX, "a tenant's prefix groups fit its range");
    const timesRandom = seededRandom(drawSeed(random));
    const sizesRandom = seededRandom(drawSeed(random));
    const process = { meanPerSecond, intervals: profile.intervals, rateShapes };
    const starts = arrivalTimes(process, timesRandom, untilMs);
    merge.add(tenantArrivals({ traffic, tenantIndex, starts, untilMs }, sizesRandom));
  }
  for (let next = merge.take(untilMs); next !== undefined; next = merge.take(untilMs)) yield next;
}

interface TenantStream {
  readonly traffic: TenantTraffic;
  readonly tenantIndex: number;
  readonly starts: Iterable<number>;
  readonly untilMs: number;
}

/** Tenants own disjoint ranges of session numbers; 2^21 of them fit into what a number holds exactly. */
const SESSIONS_PER_TENANT = 2 ** 32;

function* tenantArrivals(
  { traffic, tenantIndex, starts, untilMs }: TenantStream,
  random: Random,
): Generator<ArrivalSpec, undefined> {
  const { profile } = traffic;
  const { sessions } = profile;
  if (sessions === undefined) {
    for (const atMs of starts) {
      yield { atMs, ...requestOf(sampleRequest(profile, random), traffic, tenantIndex, atMs) };
    }
    return;
  }
  const open = (own: Random) => sessionTurns(profile, sessions, own);
  for (const { session, atMs, ...request } of placedTurns(starts, open, random, { untilMs })) {
    const sessionId = tenantIndex * SESSIONS_PER_TENANT + session;
    yield { atMs, ...requestOf(request, traffic, tenantIndex, atMs), sessionId };
  }
}

function requestOf(
  request: SampledRequest,
  { profile, promptChange, answerChange, poison }: TenantTraffic,
  tenantIndex: number,
  atMs: number,
): Omit<ArrivalSpec, "atMs"> {
  const size = { ...request };
  if (promptChange !== undefined && atMs >= promptChange.fromMs) {
    size.promptTokens = Math.min(
      Math.round(request.promptTokens * promptChange.factor),
      Math.max(request.promptTokens, promptChange.promptTokensMax),
    );
    // Scaled alike in all turns of a session, so that each still begins with the one before.
    size.prefixTokens = Math.min(
      size.promptTokens - 1,
      Math.round(request.prefixTokens * promptChange.factor),
    );
  }
  if (answerChange !== undefined && isWithin(answerChange, atMs)) {
    size.outputTokens = Math.round(size.outputTokens * answerChange.factor);
  }
  return {
    ...size,
    tenantIndex,
    prefixGroup: tenantIndex * PREFIX_GROUPS_MAX + request.prefixGroup,
    ...(poison !== undefined && isWithin(poison, atMs) && { isPoisonous: true }),
    ...(profile.outputTokensMax === undefined ? {} : { outputTokensMax: profile.outputTokensMax }),
  };
}

function isWithin({ fromMs, untilMs }: Window, atMs: number): boolean {
  return atMs >= fromMs && atMs < untilMs;
}
