import type { RowKind } from "./configuration-rows.ts";

/** A value that two versions of one thing have differently, as JSON; absent: one of them has none. */
export interface FieldChange {
  /** `price.inputPicosPerToken`, of one in a list `classes["voice"].targets`; empty: the thing as a whole. */
  readonly path: string;
  readonly before?: string;
  readonly after?: string;
}

/** What became of one thing between two versions. */
export interface ThingChange {
  readonly kind: RowKind;
  /** Its name; of a key `tenant/name`. */
  readonly name: string;
  readonly change: "added" | "changed" | "removed";
  /** Of what was added or has changed, in the order of its fields. */
  readonly fields?: readonly FieldChange[];
  /** Of a tenant that goes: keys that the admin API has issued, which go with it. */
  readonly issuedKeys?: number;
}

/** How many things became what. */
export interface ChangeCounts {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

/**
 * All that differs, or the beginning of it: tenants and then keys that go are told first, and the counts are
 * of everything.
 */
export interface ConfigurationChanges {
  readonly counts: ChangeCounts;
  readonly changes: readonly ThingChange[];
}

/** Fields told of one thing; whoever changes more has made another thing of it. */
export const FIELDS_MAX = 64;

/** What the things in a list are told apart by, where they have names. */
const NAMES = ["className", "replicaId", "modelId", "poolId", "name"] as const;

/**
 * Says which fields of a thing differ. Things in a list are compared by their names; a list of anything else is
 * one field: what moved in it says little.
 */
export function changedFields(before: unknown, after: unknown): FieldChange[] {
  return [...differences(before, after, "")].slice(0, FIELDS_MAX);
}

type Members = ReadonlyMap<string, unknown>;
const NO_MEMBERS: Members = new Map();

function* differences(before: unknown, after: unknown, path: string): Generator<FieldChange> {
  if (JSON.stringify(before) === JSON.stringify(after)) return;
  const old = before === undefined ? NO_MEMBERS : membersOf(before);
  const now = after === undefined ? NO_MEMBERS : membersOf(after);
  if (old !== undefined && now !== undefined) {
    const told = [...memberDifferences(old, now, path)];
    // What has no members, or the same in another order, is told as a whole.
    if (told.length > 0) {
      yield* told;
      return;
    }
  }
  yield {
    path,
    ...(before !== undefined && { before: JSON.stringify(before) }),
    ...(after !== undefined && { after: JSON.stringify(after) }),
  };
}

function* memberDifferences(old: Members, now: Members, path: string): Generator<FieldChange> {
  for (const step of new Set([...old.keys(), ...now.keys()])) {
    const at = path === "" || step.startsWith("[") ? `${path}${step}` : `${path}.${step}`;
    yield* differences(old.get(step), now.get(step), at);
  }
}

/** The parts of a value by the steps that lead to them; undefined for one that has none with names. */
function membersOf(value: unknown): Members | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (!Array.isArray(value)) return new Map(Object.entries(value));
  const names = NAMES.find((name) => value.every((item) => typeof Object(item)[name] === "string"));
  if (names === undefined || value.length === 0) return undefined;
  return new Map(value.map((item: unknown) => [`[${JSON.stringify(Object(item)[names])}]`, item]));
}
