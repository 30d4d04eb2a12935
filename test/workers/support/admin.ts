import { env } from "cloudflare:workers";
import { settingsOf } from "../../../workers/settings.ts";
import { fetchGateway } from "./gateway.ts";

/** A request to the admin API; everything else is sensible. */
interface AdminWish {
  readonly method?: string;
  readonly body?: unknown;
  /** The secret of the Worker when absent. */
  readonly bearer?: string;
}

/** Asks the admin API of the Worker under test. */
export function askAdmin(path: string, wish: AdminWish = {}): Promise<Response> {
  const { method = "GET", body, bearer = settingsOf(env).adminKey } = wish;
  return fetchGateway(`/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${bearer}` },
    ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
}

/** The same, for the answer's status and its body. */
export async function tellAdmin(path: string, wish: AdminWish = {}) {
  const response = await askAdmin(path, wish);
  const body: Record<string, unknown> = await response.json();
  return { status: response.status, body };
}

/** Makes a key of a tenant as `body` wishes it; returns the key. */
export async function issueKey(tenantId: string, body: object): Promise<string> {
  const { body: made } = await tellAdmin(`/tenants/${tenantId}/keys`, { method: "POST", body });
  return String(made["apiKey"]);
}
