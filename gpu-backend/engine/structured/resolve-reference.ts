import type { SchemaReader } from "./schema-reader.ts";

/**
 * Follows the `$ref` of a schema, such as `#/$defs/address`, within the whole. Throws a
 * `SchemaFault` if it leads elsewhere or nowhere.
 */
export function resolveReference(root: unknown, reader: SchemaReader): unknown {
  const reference = reader.string("$ref") ?? "";
  if (reference !== "#" && !reference.startsWith("#/")) {
    throw reader.unsupported("$ref", "unless it begins with '#/'");
  }
  let target = root;
  for (const segment of reference.split("/").slice(1)) {
    const key = segment.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof target !== "object" || target === null || !Object.hasOwn(target, key)) {
      throw reader.invalid("$ref", "a reference to a part of the schema");
    }
    target = Reflect.get(target, key);
  }
  return target;
}
