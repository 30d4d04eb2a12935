import type { Context } from "hono";
import { Hono } from "hono";
import { PoolId, ReplicaId } from "../../src/protocol/ids.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { errorResponse } from "../error-response.ts";
import { unknownThing } from "../unknown-thing.ts";

/** `/admin/v1/pools`: tells how a pool is and what it decided, and does maintenance. */
export const poolRoutes = new Hono<EdgeContext>()
  .get("/:pool", describePool)
  .all("/:pool", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }))
  .put("/:pool/closed", (c) => closePool(c, true))
  .delete("/:pool/closed", (c) => closePool(c, false))
  .all("/:pool/closed", () =>
    errorResponse({ code: "method_not_allowed" }, { allow: "PUT, DELETE" }),
  )
  .put("/:pool/replicas/:replica/drained", (c) => drainReplica(c, true))
  .delete("/:pool/replicas/:replica/drained", (c) => drainReplica(c, false))
  .all("/:pool/replicas/:replica/drained", () =>
    errorResponse({ code: "method_not_allowed" }, { allow: "PUT, DELETE" }),
  )
  .get("/:pool/decisions", explainPool)
  .all("/:pool/decisions", () =>
    errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }),
  );

/** Answers with one pool as it is now, its tenants of the last minutes included. */
async function describePool(c: Context<EdgeContext>): Promise<Response> {
  const poolId = await knownPoolOf(c);
  const status = await c.env.POOLS.getByName(poolId).status(poolId);
  return c.json({ poolId, ...status });
}

/** Has a pool take nothing in any more, or opens it again. */
async function closePool(c: Context<EdgeContext>, isClosed: boolean): Promise<Response> {
  const poolId = await knownPoolOf(c);
  await c.env.POOLS.getByName(poolId).close(poolId, isClosed);
  await note(c, isClosed ? "pool.close" : "pool.open", poolId);
  return c.json({ poolId, isClosed });
}

/** Has a pool send nothing new to one of its replicas, or use it again. */
async function drainReplica(c: Context<EdgeContext>, isDrained: boolean): Promise<Response> {
  const poolId = await knownPoolOf(c);
  const replicaId = ReplicaId.safeParse(c.req.param("replica"));
  const isKnown =
    replicaId.success &&
    (await c.env.POOLS.getByName(poolId).drain(poolId, replicaId.data, isDrained));
  if (!isKnown) {
    throw unknownThing("replica", c.req.param("replica"));
  }
  await note(c, isDrained ? "replica.drain" : "replica.resume", poolId, replicaId.data);
  return c.json({ poolId, replicaId: replicaId.data, isDrained });
}

/** Puts what was done into the audit log, behind the deed: the pool is not the Directory's. */
async function note(
  c: Context<EdgeContext>,
  action: string,
  subject: PoolId,
  details = "",
): Promise<void> {
  const deed = { actor: c.var.actor, action, subject, details };
  await c.env.DIRECTORY.getByName(DIRECTORY_NAME).note(deed);
}

/** Answers with a pool's log of decisions, a line each, from which they can be made again. */
async function explainPool(c: Context<EdgeContext>): Promise<Response> {
  const poolId = await knownPoolOf(c);
  // A log that nobody is to read is not made: it would break off in the pool.
  const lines =
    c.req.method === "HEAD" ? null : await c.env.POOLS.getByName(poolId).decisions(poolId);
  return new Response(lines, { headers: { "content-type": "application/x-ndjson" } });
}

/** Only pools of the configuration exist: a name alone makes no object. */
async function knownPoolOf(c: Context<EdgeContext>): Promise<PoolId> {
  const poolId = PoolId.safeParse(c.req.param("pool"));
  const { poolIds } = await c.env.DIRECTORY.getByName(DIRECTORY_NAME).summary();
  if (!poolId.success || !poolIds.includes(poolId.data)) {
    throw unknownThing("pool", c.req.param("pool"));
  }
  return poolId.data;
}
