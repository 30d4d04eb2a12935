import type { Random } from "../../src/base/random.ts";
import { seededRandom } from "../../src/base/random.ts";
import type { Interval } from "../../simulator/statistics.ts";
import { quantileOf } from "../../simulator/statistics.ts";
import { BlockedRequests, FIGURE_NAMES } from "./blocked-requests.ts";
import type { LoadResult, RequestDetail } from "./load-result.ts";

/** One figure of two results, and how sure their difference is. */
export interface ComparedFigure {
  readonly tenant: string;
  readonly figure: string;
  readonly a: number;
  readonly b: number;
  /** B less A, with an interval of 95 %. */
  readonly difference: number;
  /** Not numbers where nobody can say. */
  readonly interval: Interval;
  /** A side has fewer requests than an interval needs. */
  readonly isTooFew: boolean;
}

/**
 * An interval takes so many requests of each side, for latencies so many that were admitted. Of two equal servers 3
 * requests a side "differed" in 40 of 100 comparisons, 20 in about 8, where 5 are meant to. The p99 of fewer than 100
 * is the slowest of them, and "differed" in 17.
 */
export const REQUESTS_MIN = { any: 20, p99: 100 };

/**
 * Compares two results tenant by tenant. Blocks of requests that followed each other are drawn, and not
 * single ones, since a burst or a stall is seen by all that are there (Künsch, 1989). That is how much the figures vary inside a run; it does not know how runs differ.
 */
export function compareLoads(a: LoadResult, b: LoadResult, seed = 1): ComparedFigure[] {
  const random = seededRandom(seed);
  const names = a.tenants
    .map(({ name }) => name)
    .filter((name) => b.tenants.some((other) => other.name === name));
  return names.flatMap((tenant) => {
    const [ours, theirs] = [a, b].map((result) => requestsOf(result, tenant));
    if (!ours || !theirs || ours.length === 0 || theirs.length === 0) return [];
    const [one, other] = [new BlockedRequests(ours), new BlockedRequests(theirs)];
    const [before, after] = [one.figuresOf(one.whole), other.figuresOf(other.whole)];
    const intervals = differenceIntervals(one, other, random);
    const areJudged = [a, b].map((result) => isJudged(result, tenant));
    return FIGURE_NAMES.map((figure, index) => {
      const isOfGoals = figure === FIGURE_NAMES[0];
      const [of, on] = [before, after].map((figures, side) =>
        isOfGoals && areJudged[side] !== true ? NaN : (figures[index] ?? NaN),
      );
      const difference = (on ?? NaN) - (of ?? NaN);
      const least = figure.includes("p99") ? REQUESTS_MIN.p99 : REQUESTS_MIN.any;
      const isTooFew = [ours, theirs].some(
        (requests) => (isShare(figure) ? requests : admittedOf(requests)).length < least,
      );
      const isKnown = !isTooFew && !(isOfGoals && areJudged.includes(false));
      const interval = (isKnown ? intervals[index] : undefined) ?? UNKNOWN;
      return { tenant, figure, a: of ?? NaN, b: on ?? NaN, difference, interval, isTooFew };
    });
  });
}

const isShare = (figure: string) => figure.endsWith("%");

/** Without goals every answer is good, which says nothing. */
const isJudged = ({ tenants }: LoadResult, tenant: string) =>
  tenants.some(({ name, goodput }) => name === tenant && goodput !== "");

/** Fewer than elsewhere: each of them passes all requests. */
const RESAMPLES = 500;
const TAIL_RATIO = 0.025;

const UNKNOWN: Interval = { low: NaN, high: NaN };

/** Of each figure, each side being drawn from its own blocks. */
function differenceIntervals(
  ours: BlockedRequests,
  theirs: BlockedRequests,
  random: Random,
): Interval[] {
  const resampled = Array.from({ length: RESAMPLES }, () => {
    const before = ours.figuresOf(ours.draw(random));
    const after = theirs.figuresOf(theirs.draw(random));
    return after.map((figure, index) => figure - (before[index] ?? NaN));
  });
  return FIGURE_NAMES.map((_, index) => {
    const differences = resampled.map((figures) => figures[index] ?? NaN);
    if (differences.some(Number.isNaN)) return UNKNOWN;
    return {
      low: quantileOf(differences, TAIL_RATIO),
      high: quantileOf(differences, 1 - TAIL_RATIO),
    };
  });
}

function requestsOf(result: LoadResult, tenant: string): RequestDetail[] {
  const index = result.tenants.findIndex(({ name }) => name === tenant);
  return result.requests
    .filter((request) => request.tenant === index && request.ending !== "cancelled")
    .toSorted((one, other) => one.due_s - other.due_s);
}

const admittedOf = (requests: readonly RequestDetail[]) =>
  requests.filter(({ ending }) => ending !== "refused");
