import type { SeedShare } from "../bootstrap.ts";
import type { RequestRecord } from "../request-record.ts";

/** Misses among the admitted that were judged. */
export function missedShare(records: readonly RequestRecord[]): SeedShare {
  const judged = records.filter(
    ({ verdict, attainment }) => verdict === "admitted" && attainment.kind !== "excluded",
  );
  return shareOf(judged, ({ attainment }) => attainment.kind === "missed");
}

/** Refusals among those that were within their tenants' guarantees. */
export function refusedInProfileShare(records: readonly RequestRecord[]): SeedShare {
  const inProfile = records.filter(({ isInProfile }) => isInProfile === true);
  return shareOf(inProfile, ({ verdict }) => verdict === "refused");
}

/**
 * Good ones among those that were promised something: admitted, or refused within their tenant's guarantee.
 * Refusing therefore does not help.
 */
export function keptShare(records: readonly RequestRecord[]): SeedShare {
  const promised = records.filter(
    ({ verdict, isInProfile, attainment }) =>
      (verdict === "admitted" && attainment.kind !== "excluded") ||
      (verdict === "refused" && isInProfile === true),
  );
  return shareOf(promised, ({ attainment }) => attainment.kind === "good");
}

/** Those that a replica was found for, whatever it came to. */
export function admittedShare(records: readonly RequestRecord[]): SeedShare {
  return shareOf(records, ({ verdict }) => verdict === "admitted");
}

/** Good ones among all that were offered: refusing counts against it. */
export function goodShare(records: readonly RequestRecord[]): SeedShare {
  return shareOf(records, ({ attainment }) => attainment.kind === "good");
}

/** Those for which something holds. */
export function shareOf<Sample>(
  samples: readonly Sample[],
  holds: (sample: Sample) => boolean,
): SeedShare {
  return { part: samples.filter(holds).length, whole: samples.length };
}

/** Over all seeds; `NaN` where there was nothing. */
export function pooledRatio(shares: readonly SeedShare[]): number {
  const part = shares.reduce((sum, share) => sum + share.part, 0);
  const whole = shares.reduce((sum, share) => sum + share.whole, 0);
  return part / whole;
}
