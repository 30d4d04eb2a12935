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
  /** What the Worker has under the name that a pool gives for its replicas' secret, whatever it is. */
  readonly poolSecretOf: (secretName: string) => unknown;
}

const CACHE_MASTER_BYTES = 32;

/**
 * Begins every secret that is written down in this repository, in tests and examples. Anyone can
 * read those, so production refuses them.
 */
const PUBLISHED_SECRET_PREFIX = "sluice-local-";

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

const CheckedVariables = Variables.superRefine((variables, refinement) => {
  if (variables.SLUICE_MODE === "local") return;
  for (const { name, reason } of findWeakSecrets(variables)) {
    refinement.addIssue({ code: "custom", path: [name], message: reason });
  }
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
  const parsed = CheckedVariables.safeParse(env);
  if (!parsed.success) {
    const faults = parsed.error.issues.map(({ path, message }) => `${String(path[0])} ${message}`);
    throw new GatewayError({
      code: "not_configured",
      message: `The gateway is not configured to serve: ${faults.join("; ")}`,
    });
  }
  return {
    mode: parsed.data.SLUICE_MODE,
    keyPepper: parsed.data.SLUICE_KEY_PEPPER,
    cacheMaster: parsed.data.SLUICE_CACHE_MASTER,
    adminKey: parsed.data.SLUICE_ADMIN_KEY,
    replicaSecret: parsed.data.SLUICE_REPLICA_SECRET,
    poolSecretOf: (secretName) => Reflect.get(env, secretName) as unknown,
  };
}

/** What a secret may be on a developer's machine but never in production. */
function findWeakSecrets(
  variables: z.infer<typeof Variables>,
): { name: keyof typeof variables; reason: string }[] {
  const names = ["SLUICE_KEY_PEPPER", "SLUICE_ADMIN_KEY", "SLUICE_REPLICA_SECRET"] as const;
  const published = names
    .filter((name) => variables[name].startsWith(PUBLISHED_SECRET_PREFIX))
    .map((name) => ({ name, reason: "is a published example" }));
  // Whoever holds one secret (an engine's operator, say) must not thereby hold another.
  const shared = names
    .filter((name) => names.some((other) => other !== name && variables[other] === variables[name]))
    .map((name) => ({ name, reason: "is used for two purposes" }));
  const isConstant = new Set(variables.SLUICE_CACHE_MASTER).size === 1;
  const constant = { name: "SLUICE_CACHE_MASTER" as const, reason: "is not random" };
  return [...published, ...shared, ...(isConstant ? [constant] : [])];
}
