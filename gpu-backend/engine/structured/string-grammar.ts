import type { GrammarWriter } from "./grammar-writer.ts";
import { PLAIN_CHARACTERS } from "./character-set.ts";
import { anyString, stringRest } from "./json-grammar.ts";
import { patternString } from "./pattern-grammar.ts";
import { SchemaFault } from "./schema-fault.ts";
import type { SchemaReader } from "./schema-reader.ts";

const DAY = "(0[1-9]|1[0-9]|2[0-8])";
const DATE = `[0-9]{4}-(0[1-9]|1[0-2])-${DAY}|[0-9]{4}-(0[13-9]|1[0-2])-(29|30)|[0-9]{4}-(0[13578]|1[02])-31`;
const TIME =
  "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])";
const BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const LABEL = "[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?";
const HOST = `${LABEL}(\\.${LABEL}){1,3}`;

/** The formats that text can be held to, each as a pattern; some leave out rare forms. */
const FORMATS: ReadonlyMap<string, string> = new Map([
  ["date", DATE],
  ["time", TIME],
  ["date-time", `(${DATE})T${TIME}`],
  ["uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"],
  ["ipv4", `${BYTE}(\\.${BYTE}){3}`],
  ["email", `[A-Za-z0-9_+-]{1,20}(\\.[A-Za-z0-9_+-]{1,20}){0,2}@${HOST}`],
  ["uri", `https?://${HOST}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~-]*)*`],
]);

/** The strings that a schema allows, quotes included. */
export function stringGrammar(writer: GrammarWriter, reader: SchemaReader): string {
  const min = reader.count("minLength");
  const max = reader.count("maxLength");
  const source = patternOf(reader);
  const hasLength = min !== undefined || max !== undefined;
  if (source === undefined)
    return hasLength ? counted(writer, reader, { min, max }) : anyString(writer);
  if (hasLength) {
    throw reader.unsupported(
      min === undefined ? "maxLength" : "minLength",
      "beside a pattern or format",
    );
  }
  return writer.rule(patternString(writer, source.pattern, reader.pathOf(source.keyword)));
}

function patternOf(reader: SchemaReader): { keyword: string; pattern: string } | undefined {
  const pattern = reader.string("pattern");
  const format = reader.string("format");
  if (format === undefined) {
    return pattern === undefined ? undefined : { keyword: "pattern", pattern };
  }
  if (pattern !== undefined) throw reader.unsupported("format", "beside a pattern");
  const known = FORMATS.get(format);
  if (known === undefined) {
    const message = `Expected a format among ${[...FORMATS.keys()].join(", ")}`;
    throw new SchemaFault("unsupported_value", reader.pathOf("format"), message);
  }
  return { keyword: "format", pattern: known };
}

/** Counted characters need no escapes: an escape would be several states a character. */
function counted(
  writer: GrammarWriter,
  reader: SchemaReader,
  { min = 0, max }: { readonly min: number | undefined; readonly max: number | undefined },
): string {
  if (max !== undefined && min > max) {
    throw reader.invalid("maxLength", "at least as large as minLength");
  }
  writer.spend(max ?? min, reader.pathOf(max === undefined ? "minLength" : "maxLength"));
  // From the last character to the first, each in a rule that goes on to the closing quote.
  let rest = max === undefined ? stringRest(writer) : writer.rule('"\\""');
  for (let length = (max ?? min) - 1; length >= 0; length -= 1) {
    const character = PLAIN_CHARACTERS.toAlternatives(rest);
    rest = writer.rule([...(length >= min ? ['"\\""'] : []), ...character].join(" | "));
  }
  return `"\\"" ${rest}`;
}
