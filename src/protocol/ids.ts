import * as z from "zod";

/** One request as the gateway knows it: `req_` and 32 hex digits. */
export const RequestId = z.string().min(1).max(64).brand<"RequestId">();
export type RequestId = z.infer<typeof RequestId>;

/** Who is billed and limited. */
export const TenantId = z.string().min(1).max(64).brand<"TenantId">();
export type TenantId = z.infer<typeof TenantId>;

/** The name clients ask for; a replica may know the model by another one. */
export const ModelId = z.string().min(1).max(256).brand<"ModelId">();
export type ModelId = z.infer<typeof ModelId>;

/** The replicas that serve one model. */
export const PoolId = z.string().min(1).max(64).brand<"PoolId">();
export type PoolId = z.infer<typeof PoolId>;

/** One engine process; its endpoint URL as the configuration names it. */
export const ReplicaId = z.string().min(1).max(512).brand<"ReplicaId">();
export type ReplicaId = z.infer<typeof ReplicaId>;

/** Permission to use a replica for one request until an instant. */
export const LeaseId = z.string().min(1).max(64).brand<"LeaseId">();
export type LeaseId = z.infer<typeof LeaseId>;
