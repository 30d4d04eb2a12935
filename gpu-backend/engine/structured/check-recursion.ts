import { resolveReference } from "./resolve-reference.ts";
import { SchemaFault } from "./schema-fault.ts";
import { SchemaReader } from "./schema-reader.ts";

/**
 * Throws a `SchemaFault` where a schema leads back to itself without any text in between, or has no
 * finite value: no answer could ever be complete. The schema must be supported in all else.
 */
export function checkRecursion(root: unknown, path: string): void {
  const nodes = new Map<unknown, SchemaNode>();
  collectNodes(root, path, nodes);
  refuseLoops(nodes, path);
  const finite = new Set<unknown>();
  let isGrowing = true;
  while (isGrowing) {
    isGrowing = false;
    for (const [schema, { ways }] of nodes) {
      if (finite.has(schema)) continue;
      const isFinite = ways.some((parts) => parts.every((part) => finite.has(part)));
      if (!isFinite) continue;
      finite.add(schema);
      isGrowing = true;
    }
  }
  if (finite.size === nodes.size) return;
  throw new SchemaFault("invalid_value", path, "Expected a schema with a finite value");
}

interface SchemaNode {
  /** Schemas whose text is this one's own. */
  readonly same: readonly unknown[];
  /** A value is complete by any of these: when each part of it is. */
  readonly ways: readonly (readonly unknown[])[];
}

function collectNodes(root: unknown, path: string, nodes: Map<unknown, SchemaNode>): void {
  const pending = [root];
  for (let schema = pending.pop(); schema !== undefined; schema = pending.pop()) {
    if (nodes.has(schema)) continue;
    if (typeof schema === "boolean") {
      nodes.set(schema, { same: [], ways: [[]] });
      continue;
    }
    const reader = new SchemaReader(schema, path, 0);
    const same = sameText(reader, root);
    nodes.set(schema, {
      same,
      ways: same.length > 0 ? same.map((part) => [part]) : waysOf(reader),
    });
    pending.push(...same, ...partsOf(reader));
  }
}

function sameText(reader: SchemaReader, root: unknown): readonly unknown[] {
  if (reader.has("$ref")) return [resolveReference(root, reader)];
  return reader.list("allOf") ?? reader.list("anyOf") ?? [];
}

function partsOf(reader: SchemaReader): readonly unknown[] {
  const parts = [
    ...(reader.members("properties") ?? []).map(([, schema]) => schema),
    ...(reader.list("prefixItems") ?? []),
    reader.value("additionalProperties"),
    reader.value("items"),
  ];
  return parts.filter((part) => part !== undefined && part !== false);
}

function waysOf(reader: SchemaReader): readonly (readonly unknown[])[] {
  const named = reader.value("type");
  const types: readonly unknown[] = Array.isArray(named) ? named : [named];
  if (types.some((type) => type !== undefined && type !== "object" && type !== "array")) {
    return [[]];
  }
  const isImplied = named === undefined;
  const hasMembers = reader.hasAny(["properties", "required"]);
  const object = types.includes("object") || (isImplied && hasMembers);
  const array = types.includes("array") || (isImplied && !hasMembers && reader.has("minItems"));
  if (!object && !array) return [[]];
  return [...(object ? [requiredParts(reader)] : []), ...(array ? [leastItems(reader)] : [])];
}

function requiredParts(reader: SchemaReader): readonly unknown[] {
  const required = new Set(reader.list("required"));
  return (reader.members("properties") ?? [])
    .filter(([name]) => required.has(name))
    .map(([, schema]) => schema);
}

function leastItems(reader: SchemaReader): readonly unknown[] {
  const min = reader.count("minItems") ?? 0;
  const prefix = (reader.list("prefixItems") ?? []).slice(0, min);
  const items = reader.value("items");
  return min > prefix.length && items !== undefined ? [...prefix, items] : prefix;
}

/** Depth first along schemas that are the same text; one that is still open closes a loop. */
function refuseLoops(nodes: ReadonlyMap<unknown, SchemaNode>, path: string): void {
  const done = new Set<unknown>();
  for (const start of nodes.keys()) {
    const open = new Set<unknown>();
    const pending: { readonly schema: unknown; readonly isLeaving: boolean }[] = [
      { schema: start, isLeaving: false },
    ];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const { schema, isLeaving } = next;
      if (isLeaving) {
        open.delete(schema);
        done.add(schema);
        continue;
      }
      if (done.has(schema)) continue;
      const node = nodes.get(schema);
      if (node === undefined) continue;
      if (open.has(schema)) {
        const message = "Expected a schema that does not refer to itself with nothing in between";
        throw new SchemaFault("invalid_value", path, message);
      }
      open.add(schema);
      pending.push({ schema, isLeaving: true });
      for (const part of node.same) pending.push({ schema: part, isLeaving: false });
    }
  }
}
