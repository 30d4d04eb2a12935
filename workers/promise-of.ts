import { CLIENT_HEADERS } from "../src/protocol/headers.ts";
import type { RequestOutline } from "../src/protocol/operation.ts";
import type { AskedPromise, GivenPromise } from "../src/tenants/asked-promise.ts";
import { givePromise } from "../src/tenants/asked-promise.ts";
import type { LiveTenant } from "../src/tenants/live-configuration.ts";
import { GatewayError } from "./gateway-error.ts";

/** Whole ms or fractions of them, up to a day; `1e3`, `+5` and the like are no such number. */
const MILLISECONDS = /^\d{1,8}(?:\.\d{1,6})?$/;
const ECHO_CHARACTERS_MAX = 60;

/**
 * Tells what a request is promised: the one place where what a client says of it is read. Throws what is
 * wrong with a header, or `invalid_value` for a class or a tier that its tenant does not have.
 */
export function promiseOf(
  headers: Headers,
  { serviceTier }: Pick<RequestOutline, "serviceTier">,
  tenant: LiveTenant,
): GivenPromise {
  const className = headers.get(CLIENT_HEADERS.className)?.trim();
  const ttftMs = millisecondsOf(headers, CLIENT_HEADERS.ttftMs);
  const tpotMs = millisecondsOf(headers, CLIENT_HEADERS.tpotMs);
  const asked: AskedPromise = {
    ...(className !== undefined && { className }),
    ...(serviceTier !== undefined && { serviceTier }),
    ...(ttftMs !== undefined && { ttftMs }),
    ...(tpotMs !== undefined && { tpotMs }),
  };
  const verdict = givePromise(tenant, asked);
  if (verdict.kind === "given") return verdict.promise;
  const { by, found, allowed, closest } = verdict;
  const param = by === "tier" ? "service_tier" : CLIENT_HEADERS.className;
  const what = by === "tier" ? "a tier whose class the tenant has" : "one of the tenant's classes";
  const hint = closest === undefined ? "" : `: did you mean '${closest}'?`;
  throw new GatewayError({
    code: "invalid_value",
    message: `Expected ${what} (${allowed.join(", ")}) in '${param}', found ${quote(found)}${hint}`,
    param,
  });
}

function millisecondsOf(headers: Headers, name: string): number | undefined {
  const text = headers.get(name)?.trim();
  if (text === undefined) return undefined;
  const milliseconds = MILLISECONDS.test(text) ? Number(text) : 0;
  if (milliseconds > 0) return milliseconds;
  throw new GatewayError({
    code: "invalid_value",
    message: `Expected a number of milliseconds above 0 such as 250.5 in '${name}', found ${quote(text)}`,
    param: name,
  });
}

function quote(text: string): string {
  return JSON.stringify(text.slice(0, ECHO_CHARACTERS_MAX));
}
