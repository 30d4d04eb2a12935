import * as z from "zod";

const URL_LENGTH_MAX = 512;

// Scheme, host (a name, an IPv4 or a bracketed IPv6 address), port, path. What is left out is left
// out on purpose: credentials would end up in logs, and a query or fragment cannot carry a path.
const ENDPOINT =
  /^(https?:\/\/)([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?((?:\/[\w.~%-]+)*)\/*$/i;
const PORT_MAX = 65_535;

/**
 * Returns the one spelling under which a replica is known: scheme and host in lower case, no slash
 * at the end. Undefined if the text is not an http(s) URL of host, optional port and optional path.
 */
export function normalizeEndpointUrl(text: string): string | undefined {
  if (text.length > URL_LENGTH_MAX) return undefined;
  const [, scheme = "", host = "", port = "", path = ""] = ENDPOINT.exec(text) ?? [];
  if (host === "" || Number(port.slice(1)) > PORT_MAX) return undefined;
  return `${scheme.toLowerCase()}${host.toLowerCase()}${port}${path}`;
}

/** A replica's URL in its one spelling, see `normalizeEndpointUrl`. */
export const EndpointUrl = z
  .string()
  .refine((text) => normalizeEndpointUrl(text) === text, "not the plain URL of a replica");
