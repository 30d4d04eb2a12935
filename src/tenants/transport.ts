import * as z from "zod";
import { isSecretName } from "./secret-name.ts";

const SecretName = z.string().refine(isSecretName, "the name of a secret");

/** How a pool's replicas are reached, beyond their URLs. */
export const LiveTransport = z.strictObject({
  /** Names a binding of the Worker that has a `fetch` of its own: a VPC service, or a certificate for mTLS. */
  via: z.string().refine(isSecretName, "the name of a binding").exactOptional(),
  /** Names the two secrets of a service token of Cloudflare Access; never the token. */
  access: z.strictObject({ idName: SecretName, secretName: SecretName }).exactOptional(),
});
