import { type GrammarWriter, literal } from "./grammar-writer.ts";
import { otherName } from "./json-grammar.ts";
import type { SchemaReader } from "./schema-reader.ts";

/** Converts a schema within another and returns the name of its rule. */
type Convert = (schema: unknown, path: string) => string;

const NAME_CHARACTERS_MAX = 256;
const PROPERTIES_MAX = 500;

/**
 * The objects that a schema allows: members in the order of `properties`, then others if
 * `additionalProperties` allows them, which without `properties` it does unless it says no.
 */
export function objectGrammar(
  writer: GrammarWriter,
  reader: SchemaReader,
  convert: Convert,
): string {
  const properties = reader.members("properties");
  const names = (properties ?? []).map(([name]) => name);
  checkNames(reader, names);
  const required = new Set(requiredNames(reader, names));
  const more = additionalMembers(
    writer,
    reader,
    { names, isOpen: properties === undefined },
    convert,
  );
  // From the last member to the first: what follows when some stands before, and when none does.
  let next = writer.rule(more === undefined ? '"}"' : `"}" | ", " ${more}`);
  let first = more === undefined ? next : writer.rule(`"}" | ${more}`);
  for (const [name, schema] of (properties ?? []).toReversed()) {
    const value = convert(schema, reader.pathOf("properties", name));
    const member = `${literal(`${JSON.stringify(name)}: `)} ${value} ${next}`;
    const isOptional = !required.has(name);
    first = writer.rule(isOptional ? `${member} | ${first}` : member);
    next = writer.rule(isOptional ? `", " ${member} | ${next}` : `", " ${member}`);
  }
  return `"{" ${first}`;
}

function checkNames(reader: SchemaReader, names: readonly string[]): void {
  if (names.length > PROPERTIES_MAX) {
    throw reader.unsupported("properties", `with more than ${PROPERTIES_MAX} members`);
  }
  // Whoever copies such a member into an object of JavaScript gives that another prototype.
  if (names.includes("__proto__")) throw reader.unsupported("properties", "with '__proto__'");
  if (names.some((name) => name.length > NAME_CHARACTERS_MAX)) {
    throw reader.unsupported("properties", `with names above ${NAME_CHARACTERS_MAX} characters`);
  }
}

function requiredNames(reader: SchemaReader, names: readonly string[]): readonly string[] {
  const required = reader.list("required") ?? [];
  const known = new Set(names);
  return required.map((name) => {
    if (typeof name !== "string") throw reader.invalid("required", "a list of names");
    if (!known.has(name)) throw reader.invalid("required", "a list of names in 'properties'");
    return name;
  });
}

/** The rule for one member beyond the named ones and all that follow it, closing brace included. */
function additionalMembers(
  writer: GrammarWriter,
  reader: SchemaReader,
  named: { readonly names: readonly string[]; readonly isOpen: boolean },
  convert: Convert,
): string | undefined {
  const allowed = reader.has("additionalProperties")
    ? reader.value("additionalProperties")
    : named.isOpen;
  if (allowed === false) return undefined;
  const value = convert(allowed, reader.pathOf("additionalProperties"));
  const name = otherName(writer, [...named.names, "__proto__"]);
  const members = writer.reserve();
  writer.define(members, `"\\"" ${name} ": " ${value} ("}" | ", " ${members})`);
  return members;
}

/** The arrays that a schema allows. */
export function arrayGrammar(
  writer: GrammarWriter,
  reader: SchemaReader,
  convert: Convert,
): string {
  const prefix = reader.list("prefixItems") ?? [];
  const items = itemsSchema(reader, prefix.length > 0);
  const min = reader.count("minItems") ?? 0;
  const max = Math.min(
    reader.count("maxItems") ?? Infinity,
    items === false ? prefix.length : Infinity,
  );
  if (min > max) throw reader.invalid("minItems", "at most as many as there may be");
  const counted = max === Infinity ? Math.max(min, prefix.length) : max;
  writer.spend(counted, reader.pathOf(reader.has("maxItems") ? "maxItems" : "minItems"));
  const itemAt = (index: number) =>
    index < prefix.length
      ? convert(prefix[index], `${reader.pathOf("prefixItems")}[${index}]`)
      : convert(items, reader.pathOf("items"));
  // From the last to the first: `tail` is what may follow when `index` of them stand already.
  let tail = '"]"';
  if (max === Infinity) {
    tail = writer.reserve();
    writer.define(tail, `"]" | ", " ${itemAt(counted)} ${tail}`);
  }
  for (let index = counted - 1; index > 0; index -= 1) {
    const more = `", " ${itemAt(index)} ${tail}`;
    tail = writer.rule(index >= min ? `"]" | ${more}` : more);
  }
  if (max === 0) return '"[]"';
  const some = `${itemAt(0)} ${tail}`;
  return min === 0 ? `"[" ("]" | ${some})` : `"[" ${some}`;
}

/** Behind `prefixItems` there is nothing unless `items` says what. */
function itemsSchema(reader: SchemaReader, hasPrefix: boolean): unknown {
  if (reader.has("items")) return reader.value("items");
  return !hasPrefix;
}
