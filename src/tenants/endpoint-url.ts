import * as z from "zod";

const URL_LENGTH_MAX = 512;
const PORT_MAX = 65_535;
const DEFAULT_PORTS: ReadonlyMap<string, string> = new Map([
  ["http://", ":80"],
  ["https://", ":443"],
]);

// Scheme, host, port, path, slashes at the end. What is missing is missing on purpose: credentials
// would end up in logs, a query or fragment cannot be followed by a path, and `..` or `%2e` would make
// the URL another one on the wire.
const ENDPOINT =
  /^(https?:\/\/)([a-z0-9._-]+|\[[^\]]*\])(:[1-9]\d{0,4})?((?:\/[\w~-][\w.~-]*)*)\/*$/;

// The last label of a name begins with a letter: otherwise it is a number, so an IPv4 address.
const HOST_NAME = /^(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z](?:[a-z0-9_-]*[a-z0-9_])?$/;

/**
 * Returns the one spelling under which a replica is known: scheme and host in lower case, no default
 * port, no slash at the end. Undefined if the text is not an http(s) URL of host, port and path alone.
 */
export function normalizeEndpointUrl(text: string): string | undefined {
  if (text.length > URL_LENGTH_MAX) return undefined;
  const origin = /^[^:]*:\/\/[^/]*/.exec(text)?.[0] ?? "";
  const [, scheme = "", host = "", port = "", path = ""] =
    ENDPOINT.exec(origin.toLowerCase() + text.slice(origin.length)) ?? [];
  if (!isHost(host) || Number(port.slice(1)) > PORT_MAX) return undefined;
  return `${scheme}${host}${port === DEFAULT_PORTS.get(scheme) ? "" : port}${path}`;
}

/**
 * Returns the URL under which the OpenAI API of a server begins, without its version: people write it with
 * and without, and every path of the API brings it along.
 */
export function normalizeApiUrl(text: string): string | undefined {
  return normalizeEndpointUrl(text)?.replace(/\/v1$/, "");
}

function isHost(host: string): boolean {
  if (host.startsWith("[")) return z.ipv6().safeParse(host.slice(1, -1)).success;
  return HOST_NAME.test(host) || z.ipv4().safeParse(host).success;
}

/** A replica's URL in its one spelling, see `normalizeEndpointUrl`. */
export const EndpointUrl = z
  .string()
  .refine(
    (text) => normalizeEndpointUrl(text) === text,
    "the URL of a replica in its one spelling",
  );
