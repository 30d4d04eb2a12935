import { createHash, timingSafeEqual } from "node:crypto";
import { ProblemError } from "./problem-error.ts";

const CHALLENGE = { "www-authenticate": "Bearer" };

/**
 * Throws 401 unless the header carries the secret. Digests are compared, in constant time, so that
 * neither the secret's length nor its beginning can be found out by trying.
 */
export function authenticate(authorization: string | undefined, secret: string): void {
  const [, key] = /^bearer +(\S+) *$/i.exec(authorization ?? "") ?? [];
  if (key === undefined) throw new ProblemError({ code: "missing_api_key" }, CHALLENGE);
  if (!timingSafeEqual(digest(key), digest(secret))) {
    throw new ProblemError({ code: "invalid_api_key" }, CHALLENGE);
  }
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
