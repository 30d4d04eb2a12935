import { resolveReference } from "./resolve-reference.ts";
import { SchemaFault } from "./schema-fault.ts";
import { SchemaReader } from "./schema-reader.ts";

/**
 * Throws a `SchemaFault` where a schema leads back to itself without any text in between, or has no
 * finite value: no answer could ever be complete. The schema must be supported in all else.
 */
export function checkRecursion(root: unknown, path: string): void {
  const nodes = new Map<unknown, SchemaNode>();
  collectNodes(root, { root, path, nodes });
  refuseLoops(nodes);
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
  for (const [schema, node] of nodes) {
    if (finite.has(schema)) continue;
    throw new SchemaFault("invalid_value", node.path, "Expected a schema with a finite value");
  }
}

interface SchemaNode {
  readonly path: string;
  /** Schemas whose text is this one's own. */
  readonly same: readonly unknown[];
  /** A value is complete by any of these: when each part of it is. */
  readonly ways: readonly (readonly unknown[])[];
}

interface Collection {
  readonly root: unknown;
  readonly path: string;
  readonly nodes: Map<unknown, SchemaNode>;
}

function collectNodes(root: unknown, collection: Collection): void {
  const { nodes } = collection;
  const pending: { readonly schema: unknown; readonly path: string }[] = [
    { schema: root, path: collection.path },
  ];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    if (nodes.has(next.schema)) continue;
    if (typeof next.schema === "boolean") {
      nodes.set(next.schema, { path: next.path, same: [], ways: [[]] });
      continue;
    }
    const reader = new SchemaReader(next.schema, next.path, 0);
    const same = sameText(reader, collection.root);
    const parts = partsOf(reader);
    const ways = same.length > 0 ? same.map((schema) => [schema]) : waysOf(reader);
    nodes.set(next.schema, { path: next.path, same, ways });
    for (const schema of [...same, ...parts]) pending.push({ schema, path: next.path });
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
function refuseLoops(nodes: ReadonlyMap<unknown, SchemaNode>): void {
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
        throw new SchemaFault("invalid_value", node.path, message);
      }
      open.add(schema);
      pending.push({ schema, isLeaving: true });
      for (const part of node.same) pending.push({ schema: part, isLeaving: false });
    }
  }
}
