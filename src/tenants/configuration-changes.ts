import type { RowKind } from "./configuration-rows.ts";

/** A value that two versions of one thing have differently, as JSON; absent: one of them has none. */
export interface FieldChange {
  /** `limits.tokensPerMinuteMax`; empty where the thing as a whole is another. */
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
  /** Of what has changed, in the order of its fields. */
  readonly fields?: readonly FieldChange[];
}

/** How many things became what. */
export interface ChangeCounts {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

/** All that differs, or the beginning of it: the counts are of everything. */
export interface ConfigurationChanges {
  readonly counts: ChangeCounts;
  readonly changes: readonly ThingChange[];
}

/** Fields told of one thing; whoever changes more has made another thing of it. */
const FIELDS_MAX = 64;

/** Says which fields of a thing differ. Lists are one field: what moved in them says little. */
export function changedFields(before: unknown, after: unknown): FieldChange[] {
  return [...differences(before, after, "")].slice(0, FIELDS_MAX);
}

function* differences(before: unknown, after: unknown, path: string): Generator<FieldChange> {
  if (isRecord(before) && isRecord(after)) {
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      const at = path === "" ? name : `${path}.${name}`;
      yield* differences(ownValue(before, name), ownValue(after, name), at);
    }
    return;
  }
  if (JSON.stringify(before) === JSON.stringify(after)) return;
  yield {
    path,
    ...(before !== undefined && { before: JSON.stringify(before) }),
    ...(after !== undefined && { after: JSON.stringify(after) }),
  };
}

function ownValue(record: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(record, name) ? record[name] : undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
