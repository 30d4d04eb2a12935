import * as z from "zod";
import { SECRET_LENGTH_MIN } from "../src/protocol/secret-length.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";

/** The Worker's own settings, checked. Nothing of it is ever logged or sent anywhere. */
export interface Settings {
  readonly mode: "local" | "production";
  /** Key of the HMAC under which API keys are stored and looked up. */
  readonly keyPepper: string;
  /** 32 bytes: parent of every KV namespace. */
  readonly cacheMaster: Uint8Array;
  /** Bearer of `/admin/v1`. */
  readonly adminKey: string;
  /** Bearer between the edge and our own engines, both ways. */
  readonly replicaSecret: string;
  /** What the Worker has under the name that a pool gives for its replicas' secret. */
  readonly poolSecretOf: (secretName: string) => PoolSecret;
  /** The binding by which a pool's replicas are reached. */
  readonly bindingOf: (name: string) => PoolBinding;
}

/** A binding's own `fetch`; without one, on a developer's machine alone, the way is the usual one. */
type PoolBinding =
  | {
      readonly kind: "known";
      readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
    }
  | { readonly kind: "faulty"; readonly reason: string };

/** What a pool's servers are sent, or why that cannot be. */
type PoolSecret =
  | { readonly kind: "known"; readonly secret: string }
  | { readonly kind: "faulty"; readonly reason: string };

const CACHE_MASTER_BYTES = 32;

/**
 * Begins every secret that is written down in this repository, in tests and examples. Anyone can
 * read those, so production refuses them.
 */
const PUBLISHED_SECRET_PREFIX = "sluice-local-";

/** A secret that was drawn has far more different characters than one that was thought up to be long. */
const SECRET_CHARACTERS_MIN = 10;

// A bearer travels in a header and must arrive as it was typed.
const Secret = z
  .string("is missing")
  .min(SECRET_LENGTH_MIN, `must have ${SECRET_LENGTH_MIN} characters or more`)
  .regex(/^[\x21-\x7e]*$/, "must be printable ASCII without spaces");

const CacheMaster = z
  .string("is missing")
  .regex(/^[A-Za-z0-9_-]{43}=?$/, `must be ${CACHE_MASTER_BYTES} bytes as base64url`)
  .transform((text) => {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    return Uint8Array.from(binary, (character) => character.charCodeAt(0));
  });

const Variables = z.object({
  SLUICE_MODE: z.enum(["local", "production"], "must be local or production").default("production"),
  SLUICE_KEY_PEPPER: Secret,
  SLUICE_CACHE_MASTER: CacheMaster,
  SLUICE_ADMIN_KEY: Secret,
  SLUICE_REPLICA_SECRET: Secret,
});

const settingsByEnv = new WeakMap<Env, Settings>();

/**
 * Checks the bindings and secrets, once per isolate. Throws `not_configured`, which names each
 * variable at fault and what is wrong with it, never its value.
 */
export function settingsOf(env: Env): Settings {
  const known = settingsByEnv.get(env);
  if (known !== undefined) return known;
  const settings = parseSettings(env);
  settingsByEnv.set(env, settings);
  return settings;
}

function parseSettings(env: Env): Settings {
  const parsed = Variables.safeParse(env);
  const faults = (parsed.error?.issues ?? []).map(({ path, message }) => ({
    name: String(path[0]),
    reason: message,
  }));
  // What is wrong with one secret must not hide what is wrong with another.
  if (env.SLUICE_MODE !== "local") faults.push(...findWeakSecrets(env));
  if (!parsed.success || faults.length > 0) {
    const names = Object.keys(Variables.shape).filter((each) =>
      faults.some(({ name }) => name === each),
    );
    const told = names.map((each) => {
      const reasons = faults.flatMap(({ name, reason }) => (name === each ? [reason] : []));
      return `${each} ${[...new Set(reasons)].join(" and ")}`;
    });
    throw new GatewayError({
      code: "not_configured",
      message: `The gateway is not configured to serve: ${told.join("; ")}`,
    });
  }
  const { SLUICE_MODE: mode } = parsed.data;
  return {
    mode,
    keyPepper: parsed.data.SLUICE_KEY_PEPPER,
    cacheMaster: parsed.data.SLUICE_CACHE_MASTER,
    adminKey: parsed.data.SLUICE_ADMIN_KEY,
    replicaSecret: parsed.data.SLUICE_REPLICA_SECRET,
    poolSecretOf: (secretName) => checkPoolSecret(Reflect.get(env, secretName), mode),
    bindingOf: (name) => checkBinding(Reflect.get(env, name), mode),
  };
}

/** What a secret may be on a developer's machine but never in production; of those that are there at all. */
function findWeakSecrets(env: Env): { name: string; reason: string }[] {
  const names = [
    "SLUICE_KEY_PEPPER",
    "SLUICE_CACHE_MASTER",
    "SLUICE_ADMIN_KEY",
    "SLUICE_REPLICA_SECRET",
  ] as const;
  const all = names.flatMap((name) => {
    const secret = env[name];
    return typeof secret === "string" && secret !== "" ? [{ name, secret }] : [];
  });
  // The master is bytes in base64url: what it may look like is another question.
  const given = all.filter(({ name }) => name !== "SLUICE_CACHE_MASTER");
  const published = given
    .filter(({ secret }) => secret.startsWith(PUBLISHED_SECRET_PREFIX))
    .map(({ name }) => ({ name, reason: "is a published example" }));
  // Whoever holds one secret (an engine's operator, say) must not thereby hold another.
  const shared = all
    .filter(({ name, secret }) =>
      all.some((other) => other.name !== name && other.secret === secret),
    )
    .map(({ name }) => ({ name, reason: "is used for two purposes" }));
  const { SLUICE_CACHE_MASTER: master = "" } = env;
  const guessable = [
    ...given.filter(({ secret }) => new Set(secret).size < SECRET_CHARACTERS_MIN),
    ...(new Set(master).size === 1 ? [{ name: "SLUICE_CACHE_MASTER" }] : []),
  ].map(({ name }) => ({ name, reason: "is not random" }));
  return [...published, ...shared, ...guessable];
}

// A header carries nothing else, and a blank in it is a slip of whoever set the secret.
const POOL_SECRET = /^[\x21-\x7e]{1,4096}$/;

/** How long and how random a foreign server's secret is, is that server's to say. */
function checkPoolSecret(secret: unknown, mode: Settings["mode"]): PoolSecret {
  if (secret === undefined || secret === "") return { kind: "faulty", reason: "is missing" };
  if (typeof secret !== "string" || !POOL_SECRET.test(secret)) {
    return { kind: "faulty", reason: "must be printable ASCII without spaces" };
  }
  if (mode === "production" && secret.startsWith(PUBLISHED_SECRET_PREFIX)) {
    return { kind: "faulty", reason: "is a published example" };
  }
  return { kind: "known", secret };
}

/** Bindings of a VPC service and of a certificate are both a `Fetcher`. */
function checkBinding(binding: unknown, mode: Settings["mode"]): PoolBinding {
  if (binding === undefined) {
    return mode === "local" ? { kind: "known" } : { kind: "faulty", reason: "is not bound" };
  }
  if (!isFetcher(binding)) return { kind: "faulty", reason: "is no binding that has a fetch" };
  return { kind: "known", fetch: (url, init) => binding.fetch(url, init) };
}

function isFetcher(
  binding: unknown,
): binding is { fetch(url: string, init: RequestInit): Promise<Response> } {
  if (typeof binding !== "object" || binding === null) return false;
  return "fetch" in binding && typeof binding.fetch === "function";
}
