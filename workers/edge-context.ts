import type { RequestId } from "../src/protocol/ids.ts";
import type { CallRecord } from "./call.ts";
import type { Env } from "./env.ts";

/** What every route finds in Hono's context. */
export interface EdgeContext {
  Bindings: Env;
  Variables: {
    readonly requestId: RequestId;
    /** When the handler was entered. */
    readonly arrivedAtMs: number;
    /** Who asks for something under `/admin/v1`: a key as `tenant/name`, or `bootstrap`. */
    readonly actor: string;
    /** Of a request for an operation. */
    readonly record?: CallRecord;
  };
}
