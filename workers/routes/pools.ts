import type { Context } from "hono";
import { PoolId } from "../../src/protocol/ids.ts";
import { verifyBearer } from "../auth.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { errorResponse } from "../error-response.ts";
import { GatewayError } from "../gateway-error.ts";
import { CLOSED_STATUS } from "../pool-of-url.ts";
import { settingsOf } from "../settings.ts";
import { unknownThing } from "../unknown-thing.ts";

const RETRY_AFTER_MS = 1_000;

/**
 * `GET /internal/pools/{pool}`: lets a replica of ours open its WebSocket to its pool. Only pools
 * of the configuration exist, so that nobody can make objects out of names.
 */
export async function connectReplica(c: Context<EdgeContext>): Promise<Response> {
  verifyBearer(c.req.raw.headers, settingsOf(c.env).replicaSecret);
  const poolId = PoolId.safeParse(c.req.param("pool"));
  if (!poolId.success) throw unknownThing("pool", c.req.param("pool"));
  const known = await c.env.DIRECTORY.getByName(DIRECTORY_NAME).poolConfiguration(poolId.data);
  if (known === undefined) throw unknownThing("pool", poolId.data);
  if (c.req.header("upgrade")?.toLowerCase() !== "websocket") {
    return errorResponse({ code: "upgrade_required" }, { upgrade: "websocket" });
  }
  const response = await c.env.POOLS.getByName(poolId.data).fetch(c.req.raw);
  if (response.webSocket !== null) return response;
  if (response.status === CLOSED_STATUS) {
    const message = "The pool is closed, and takes no engine until it is opened";
    throw new GatewayError({ code: "server_is_overloaded", message });
  }
  // Its connections are at their bound.
  throw new GatewayError({ code: "server_is_overloaded", retryAfterMs: RETRY_AFTER_MS });
}
