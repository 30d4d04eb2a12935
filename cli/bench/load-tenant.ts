import type { Goals } from "./goals.ts";
import type { TokenRange } from "./token-range.ts";

/** One tenant of a load: by whose key it asks, how often and for what. */
export interface LoadTenant {
  readonly name: string;
  /** Its bearer token; absent: none. */
  readonly token: string | undefined;
  /** A class of the gateway that it asks for; absent: its own. */
  readonly className: string | undefined;
  /** Its part of all requests, beside the others'. */
  readonly weight: number;
  /** The shape of Gamma-distributed gaps, as in vLLM: 1 is Poisson, less is burstier, `Infinity` is a beat. */
  readonly burstiness: number;
  readonly promptTokens: TokenRange;
  readonly outputTokens: TokenRange;
  readonly goals: Goals;
}

/** One request that is to be sent, and when. */
export interface LoadArrival {
  /** Its place in the load, which makes its prompt its own. */
  readonly index: number;
  /** From the start of the load. */
  readonly atMs: number;
  readonly tenantIndex: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
  /** Where a trace tells what prompts share: ids of blocks of so many tokens. */
  readonly promptBlocks?: { readonly blockTokens: number; readonly ids: readonly number[] };
}
