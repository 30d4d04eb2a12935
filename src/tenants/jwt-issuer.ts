import * as z from "zod";
import { isLoopbackHost } from "../base/loopback-host.ts";
import { TenantId } from "../protocol/ids.ts";
import { Name } from "./file-notations.ts";
import { choiceNotation, listOf, section, textNotation } from "./notation.ts";

/** Issuers that one gateway may trust. */
export const JWT_ISSUERS_MAX = 8;
const URL_LENGTH_MAX = 512;
const TEXT_LENGTH_MAX = 256;
const TENANTS_MAX = 1_000;

/** A token says whose it is in the claim of this name, unless the issuer is configured otherwise. */
const TENANT_CLAIM = "tenant";

/** Signatures of a public key alone: whoever can check one must not thereby be able to make one. */
const JWT_ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "EdDSA",
] as const;

/** An issuer of tokens that stand for a tenant, beside the tenant's keys. */
export const LiveJwtIssuer = z.strictObject({
  /** What the ledger calls its tokens: `jwt:NAME`. */
  name: z.string().min(1).max(64),
  /** Exactly what a token says in `iss`. */
  issuer: z.string().min(1).max(TEXT_LENGTH_MAX),
  /** Where its keys are; nothing that a token says decides that. */
  jwksUrl: z.string().refine((url) => parseJwksUrl(url) !== undefined, "a URL of https"),
  audience: z.string().min(1).max(TEXT_LENGTH_MAX),
  /** The claim with the tenant's name. */
  tenantClaim: z.string().min(1).max(TEXT_LENGTH_MAX),
  algorithms: z.array(z.enum(JWT_ALGORITHMS)).min(1).max(JWT_ALGORITHMS.length),
  /** The tenants that it may speak for; absent: all. */
  tenantIds: z.array(TenantId).min(1).max(TENANTS_MAX).exactOptional(),
});
export type LiveJwtIssuer = z.infer<typeof LiveJwtIssuer>;

const TEXT = `a text of 1 to ${TEXT_LENGTH_MAX} characters`;
const Text = textNotation(TEXT, (text) =>
  text.length >= 1 && text.length <= TEXT_LENGTH_MAX ? text : undefined,
);

/** An entry of `jwt:` in `sluice.yaml`. */
export const JwtSection = section({
  issuer: Text,
  jwks: textNotation("a URL of https such as https://login.example/jwks.json", parseJwksUrl),
  audience: Text,
  tenant_claim: Text.exactOptional(),
  algorithms: listOf(
    "algorithms",
    choiceNotation(JWT_ALGORITHMS, `a signature algorithm: ${JWT_ALGORITHMS.join(", ")}`),
  ).exactOptional(),
  tenants: listOf("tenants", Name).exactOptional(),
});

/** Makes an issuer of what the file says of it. */
export function toJwtIssuer(
  name: string,
  { issuer, jwks, audience, tenant_claim, algorithms, tenants }: z.output<typeof JwtSection>,
): z.input<typeof LiveJwtIssuer> {
  return {
    name,
    issuer,
    jwksUrl: jwks,
    audience,
    tenantClaim: tenant_claim ?? TENANT_CLAIM,
    algorithms: algorithms ?? ["RS256", "ES256"],
    ...(tenants !== undefined && { tenantIds: tenants }),
  };
}

/** Reads a URL without credentials and fragment, of https or of this machine. */
function parseJwksUrl(text: string): string | undefined {
  if (text.length > URL_LENGTH_MAX) return undefined;
  const [, scheme, host = ""] =
    /^(https?):\/\/([\w.-]+|\[[\da-f:]+\])(?::\d{1,5})?(?:\/[\w.~!$&'()*+,;=:@%/-]*)?(?:\?[\w.~!$&'()*+,;=:@%/?-]*)?$/i.exec(
      text,
    ) ?? [];
  if (scheme?.toLowerCase() === "https") return text;
  return scheme !== undefined && isLoopbackHost(host) ? text : undefined;
}
