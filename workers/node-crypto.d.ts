/**
 * The part of Node's crypto that workerd offers under `nodejs_compat` and that we use. All of
 * `@types/node` would also declare globals that a Worker does not have.
 */
declare module "node:crypto" {
  interface Hash {
    update(content: string | Uint8Array): this;
    digest(): Uint8Array;
    digest(encoding: "hex" | "base64url"): string;
  }

  export function createHash(algorithm: "sha256"): Hash;
  export function createHmac(algorithm: "sha256", key: string | Uint8Array): Hash;
  /** Throws unless both have the same length. */
  export function timingSafeEqual(a: Uint8Array, b: Uint8Array): boolean;
}
