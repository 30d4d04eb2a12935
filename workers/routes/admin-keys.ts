import { createHmac } from "node:crypto";
import type { Context } from "hono";
import { Hono } from "hono";
import { encodeBase64Url } from "../../src/prompt-cache/base64url.ts";
import { TenantId } from "../../src/protocol/ids.ts";
import { validate } from "../../src/protocol/validation.ts";
import { CreateKeyRequest, NamePage, RotateKeyRequest } from "../../src/tenants/admin-requests.ts";
import { API_KEY_SECRET_BYTES, makeApiKey } from "../../src/tenants/api-key.ts";
import { nextKeyName } from "../../src/tenants/next-key-name.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { errorResponse } from "../error-response.ts";
import { GatewayError } from "../gateway-error.ts";
import { orThrow, readJsonObject } from "../json-body.ts";
import type { KeyVerdict } from "../key-desk.ts";
import { settingsOf } from "../settings.ts";
import type { Settings } from "../settings.ts";
import { unknownKey, unknownThing } from "../unknown-thing.ts";
import { readQuery } from "./admin-query.ts";

const BODY_BYTES_MAX = 100_000;

/** `/admin/v1/tenants/{tenant}/keys`. A key is shown once, when it is made; afterwards nobody has it. */
export const keyRoutes = new Hono<EdgeContext>()
  .get("/", listKeys)
  .post("/", createKey)
  .all("/", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD, POST" }))
  .delete("/:key", revokeKey)
  .all("/:key", () => errorResponse({ code: "method_not_allowed" }, { allow: "DELETE" }))
  .post("/:key/rotate", rotateKey)
  .all("/:key/rotate", () => errorResponse({ code: "method_not_allowed" }, { allow: "POST" }));

async function listKeys(c: Context<EdgeContext>): Promise<Response> {
  const { after, limit } = readQuery(NamePage, c.req.query());
  const keys = await directoryOf(c).listKeys(tenantIdOf(c), after, limit);
  if (keys === undefined) throw unknownThing("tenant", c.req.param("tenant"));
  return c.json({ keys });
}

async function createKey(c: Context<EdgeContext>): Promise<Response> {
  const body = await readJsonObject(c.req.raw, BODY_BYTES_MAX);
  const { name, ...permissions } = orThrow(validate(CreateKeyRequest, body));
  const made = newKey(settingsOf(c.env));
  const place = { tenantId: tenantIdOf(c), name, actor: c.var.actor, hash: made.hash };
  const key = orRefuse(await directoryOf(c).issueKey(place, permissions), place);
  return secretResponse({ apiKey: made.apiKey, key }, 201);
}

async function rotateKey(c: Context<EdgeContext>): Promise<Response> {
  const body = await readJsonObject(c.req.raw, BODY_BYTES_MAX);
  const place = placeOf(c);
  const { name = nextKeyName(place.name), ...wish } = orThrow(validate(RotateKeyRequest, body));
  const made = newKey(settingsOf(c.env));
  const successor = { ...wish, name, hash: made.hash };
  const key = orRefuse(await directoryOf(c).rotateKey(place, successor), place);
  return secretResponse({ apiKey: made.apiKey, key }, 201);
}

async function revokeKey(c: Context<EdgeContext>): Promise<Response> {
  const place = placeOf(c);
  return c.json({ key: orRefuse(await directoryOf(c).revokeKey(place), place) });
}

/** The Directory is told the hash alone. */
function newKey({ keyPepper }: Settings): { readonly apiKey: string; readonly hash: string } {
  const secret = encodeBase64Url(crypto.getRandomValues(new Uint8Array(API_KEY_SECRET_BYTES)));
  const hmac = (text: string) => createHmac("sha256", keyPepper).update(text);
  const apiKey = makeApiKey(secret, (text) => hmac(text).digest("base64url"));
  return { apiKey, hash: hmac(apiKey).digest("hex") };
}

function secretResponse(body: object, status: number): Response {
  return Response.json(body, { status, headers: { "cache-control": "no-store" } });
}

function orRefuse(
  verdict: KeyVerdict,
  { tenantId, name }: { readonly tenantId: TenantId; readonly name: string },
): Extract<KeyVerdict, { kind: "done" }>["key"] {
  if (verdict.kind === "done") return verdict.key;
  if (verdict.kind === "name-taken") {
    const message = "The tenant has a key of this name: expected another 'name'";
    throw new GatewayError({ code: "invalid_value", message, param: "name" });
  }
  if (verdict.kind === "too-many") {
    const message = "There are as many keys as there may be: expected some to be revoked first";
    throw new GatewayError({ code: "invalid_value", message });
  }
  if (verdict.kind === "unknown-tenant") throw unknownThing("tenant", tenantId);
  throw unknownKey(tenantId, name);
}

function directoryOf(c: Context<EdgeContext>) {
  return c.env.DIRECTORY.getByName(DIRECTORY_NAME);
}

function placeOf(c: Context<EdgeContext>) {
  return { tenantId: tenantIdOf(c), name: c.req.param("key") ?? "", actor: c.var.actor };
}

function tenantIdOf(c: Context<EdgeContext>): TenantId {
  const tenantId = TenantId.safeParse(c.req.param("tenant"));
  if (!tenantId.success) throw unknownThing("tenant", c.req.param("tenant"));
  return tenantId.data;
}
