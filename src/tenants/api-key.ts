/** Begins every key of ours, so that scanners for leaked secrets know one when they see it. */
const API_KEY_PREFIX = "sk-sluice-";

/** 240 bits: nobody finds a key by trying. */
export const API_KEY_SECRET_BYTES = 30;
const SECRET_CHARACTERS = 40;
/** 48 bits: of all junk that looks like a key, so little is looked up. */
const CHECKSUM_CHARACTERS = 8;

const API_KEY = new RegExp(
  `^(${API_KEY_PREFIX}[\\w-]{${SECRET_CHARACTERS}})([\\w-]{${CHECKSUM_CHARACTERS}})$`,
);

/** HMAC-SHA-256 of a text under the gateway's pepper, as base64url. */
export type Hmac = (text: string) => string;

/** A key in its two parts; the second one follows from the first and the pepper. */
export interface ApiKeyParts {
  readonly body: string;
  readonly checksum: string;
}

/** Makes a key of random bytes, given as base64url. */
export function makeApiKey(secret: string, hmac: Hmac): string {
  const body = `${API_KEY_PREFIX}${secret}`;
  return `${body}${checksumOf(body, hmac)}`;
}

/** Takes a key apart; undefined for what has not the form of one, such as a demo key. */
export function splitApiKey(apiKey: string): ApiKeyParts | undefined {
  const [, body, checksum] = API_KEY.exec(apiKey) ?? [];
  return body === undefined || checksum === undefined ? undefined : { body, checksum };
}

/**
 * The checksum that a key must end with. Only who has the pepper can tell, so junk costs an edge one HMAC
 * and nobody else anything. It is of another text than what is stored of a key, and tells nothing of that.
 */
export function checksumOf(body: string, hmac: Hmac): string {
  return hmac(`checksum\n${body}`).slice(0, CHECKSUM_CHARACTERS);
}
