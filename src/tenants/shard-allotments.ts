import * as z from "zod";
import { assert } from "../base/assert.ts";
import type { LevelName, Levels } from "./levels.ts";
import { LEVEL_NAMES, levelsBy, limitLevelsOf, limitsMaxOf, NO_LEVELS } from "./levels.ts";
import type { LimitsMax } from "./tenant-limits.ts";

/** Objects that one tenant may be spread over. */
export const SHARDS_MAX = 16;
/** A shard that has not renewed for so long begins nothing, and what it had is given to others. */
export const LEASE_MS = 10_000;
/** What a shard began before that still counts for a minute, and the half second of a window's slot. */
const MINUTE_HELD_MS = 60_500;
/** Of a month, which is refused for good, a shard holds no more ahead than this part. */
const MONTH_AHEAD_RATIO = 0.01;

const Level = z.int().min(0);
const StoredLevels = z.strictObject({
  concurrency: Level,
  requests: Level,
  tokens: Level,
  monthTokens: Level,
  monthMicros: Level,
});

/** What one shard was given last. */
export const ShardAllotment = z.strictObject({
  shard: z
    .int()
    .min(1)
    .max(SHARDS_MAX - 1),
  life: z.int().min(0),
  sequence: z.int().min(0),
  month: z.int().min(0),
  allotted: StoredLevels,
  expiresAtMs: z.number(),
});
export type ShardAllotment = z.infer<typeof ShardAllotment>;

/** A shard says what it keeps, having let go of all else, and what it lacks. */
export interface LeaseRequest {
  readonly shard: number;
  /** Later lives of a shard, and later requests of one life, have larger numbers. */
  readonly life: number;
  readonly sequence: number;
  readonly month: number;
  readonly kept: Levels;
  /** What all that wait for it take together, and the least that is of use to one of them. */
  readonly wants: Levels;
  readonly least: Levels;
  /** Whether it is in use, so that it should have some ahead. */
  readonly isBusy: boolean;
}

export interface LeaseGrant {
  readonly allotted: Levels;
  /** What is nobody's after that. */
  readonly free: Levels;
}

/** The tenant as its first object sees it. */
export interface TenantStanding {
  readonly limitsMax: LimitsMax;
  readonly shardCount: number;
  /** What this object has taken itself, being a shard as well. */
  readonly ownTaken: Levels;
  readonly month: number;
}

/**
 * Who has which part of a tenant's limits, kept by the first of its objects. A shard lets go of a part
 * before it says so, and is given one only once that is written down: so what is written down here is never
 * less than what a shard may use, whatever call or answer is lost, and together they never exceed the limit.
 *
 * A shard that falls silent keeps what it may have used: its minute for a minute, its month until it speaks
 * again. Only its running requests are given up, since nobody knows whether they still run.
 */
export class ShardAllotments {
  readonly #allotments = new Map<number, ShardAllotment>();

  constructor(stored: readonly ShardAllotment[] = []) {
    for (const allotment of stored) this.#allotments.set(allotment.shard, allotment);
  }

  /** Objects of the tenant that may have been used, this one too. */
  get shardCount(): number {
    return Math.max(0, ...this.#allotments.keys()) + 1;
  }

  /** What has to be stored before a grant is told. */
  get state(): readonly ShardAllotment[] {
    return [...this.#allotments.values()];
  }

  /** Grants a shard its next lease; undefined for a request that a later one has overtaken. */
  renew(request: LeaseRequest, standing: TenantStanding, nowMs: number): LeaseGrant | undefined {
    const { shard, life, sequence, month, kept } = request;
    const known = this.#allotments.get(shard);
    if (known !== undefined && isOvertaken(request, known)) return undefined;
    const limits = limitLevelsOf(standing.limitsMax);
    const others = this.#held(standing.month, nowMs, shard);
    const isLimited = (name: LevelName) => limits[name] !== Infinity;
    const left = levelsBy((name) =>
      isLimited(name)
        ? Math.max(0, limits[name] - standing.ownTaken[name] - others[name] - kept[name])
        : 0,
    );
    const given = levelsBy((name) => givenOf(name, left[name], limits[name], request, standing));
    const allotted = levelsBy((name) => (isLimited(name) ? kept[name] + given[name] : 0));
    const expiresAtMs = nowMs + LEASE_MS;
    this.#allotments.set(shard, { shard, life, sequence, month, allotted, expiresAtMs });
    return { allotted, free: levelsBy((name) => left[name] - given[name]) };
  }

  /** What is left of the limits for the object itself, beside what the other shards have. */
  own(limitsMax: LimitsMax, month: number, nowMs: number): LimitsMax {
    if (this.#allotments.size === 0) return limitsMax;
    const limits = limitLevelsOf(limitsMax);
    const held = this.#held(month, nowMs);
    return limitsMaxOf(
      limitsMax,
      levelsBy((name) => Math.max(0, limits[name] - held[name])),
    );
  }

  checkInvariants(): void {
    assert(this.#allotments.size < SHARDS_MAX, "shards are within their bound");
    for (const { allotted } of this.#allotments.values()) {
      for (const name of LEVEL_NAMES) assert(allotted[name] >= 0, "no part is less than nothing");
    }
  }

  #held(month: number, nowMs: number, except?: number): Levels {
    const others = [...this.#allotments.values()].filter(({ shard }) => shard !== except);
    return others.reduce((sum, allotment) => {
      const held = heldOf(allotment, month, nowMs);
      return levelsBy((name) => sum[name] + held[name]);
    }, NO_LEVELS);
  }
}

function isOvertaken(request: LeaseRequest, known: ShardAllotment): boolean {
  if (request.life !== known.life) return request.life < known.life;
  return request.sequence <= known.sequence;
}

/** What of a part has to be taken for used. */
function heldOf({ allotted, expiresAtMs, ...told }: ShardAllotment, month: number, nowMs: number) {
  const isLeased = nowMs < expiresAtMs;
  const isOfMinute = nowMs < expiresAtMs + MINUTE_HELD_MS;
  // A new month begins with what still runs, of which a shard that is there tells at once.
  const isOfMonth = told.month >= month || isLeased;
  const holds = {
    concurrency: isLeased,
    requests: isOfMinute,
    tokens: isOfMinute,
    monthTokens: isOfMonth,
    monthMicros: isOfMonth,
  };
  return levelsBy((name) => (holds[name] ? allotted[name] : 0));
}

/** What a shard lacks, as far as it is there, and a part of the rest ahead. */
function givenOf(
  name: LevelName,
  left: number,
  limit: number,
  { wants, least, isBusy }: LeaseRequest,
  { shardCount }: TenantStanding,
): number {
  // Too little for anybody is left to others.
  const wanted = left < least[name] ? 0 : Math.min(left, wants[name]);
  if (!isBusy) return wanted;
  const ahead = Math.floor((left - wanted) / (2 * shardCount));
  const isOfMonth = name === "monthTokens" || name === "monthMicros";
  const aheadMax = isOfMonth ? Math.floor(limit * MONTH_AHEAD_RATIO) : Infinity;
  return wanted + Math.min(ahead, aheadMax);
}
