import { GatewayError } from "./gateway-error.ts";

/** As long as names may be; a longer one is none, and not worth repeating as a whole. */
const NAME_CHARACTERS_MAX = 64;

/** Says that nothing of some kind has the name by which a request asks for it. */
export function unknownThing(
  kind: "tenant" | "pool" | "replica",
  name: string | undefined,
): GatewayError {
  return new GatewayError({
    code: "not_found",
    message: `There is no ${kind} ${quoted(name)}`,
    param: kind,
  });
}

/** The same of a key, whose tenant is there. */
export function unknownKey(tenantId: string, name: string): GatewayError {
  return new GatewayError({
    code: "not_found",
    message: `The tenant ${quoted(tenantId)} has no key ${quoted(name)}`,
    param: "key",
  });
}

function quoted(name = ""): string {
  const isWhole = name.length <= NAME_CHARACTERS_MAX;
  return `'${isWhole ? name : `${name.slice(0, NAME_CHARACTERS_MAX)}…`}'`;
}
