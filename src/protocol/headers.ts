/** Headers between gateway and engine. A client's own values of these never reach an engine. */
export const ENGINE_HEADERS = {
  requestId: "x-gw-request-id",
  /** An opaque name of the tenant, for the engine's shares; never the tenant's own id. */
  tenant: "x-gw-tenant",
  /** The KV namespace: the engine makes it the parent of block 0. */
  cacheSalt: "x-gw-cache-salt",
  /** What the prompt begins with, as `encodeChain` writes it: under these names the replica tells what it has cached. */
  chain: "x-gw-chain",
  /** How urgent the request is: an integer, lower is more urgent, 0 is ordinary. */
  priority: "x-gw-priority",
  /** What is left of the first-token budget when the request is sent: a duration in ms. */
  deadlineMs: "x-gw-deadline-ms",
  /** The largest gap between two tokens that the tenant was promised, in ms. */
  tbtMs: "x-gw-tbt-ms",
  /** `<epoch>.<number>`: the pool's count of its dispatches, over all replicas; echoed in reports. */
  dispatch: "x-gw-dispatch",
  /**
   * `1` asks for a stream whose chunks say which tokens they are from, so that another engine can go on with
   * it; the answer says by it that they do, and how many tokens had been there before.
   */
  tellTokens: "x-gw-tell-tokens",
  /** Another replica, by its URL, that has more of the prompt cached: KV may be fetched from there. */
  kvPeer: "x-gw-kv-peer",
  /**
   * `1` asks for the KV of the prompt and nothing else: the answer is a `PrefillAnswer`, and another engine
   * that is named this one as its peer fetches what is held. Who does not know it generates as ever.
   */
  prefillOnly: "x-gw-prefill-only",
  /** W3C Trace Context: the request's trace, and in it the gateway's span. */
  traceparent: "traceparent",
} as const;

/** The entry of `Server-Timing` by which it is told that something of a prompt was found cached. */
export const CACHE_HIT = 'cache;desc="hit"';

/** Headers between gateway and client. */
export const CLIENT_HEADERS = {
  requestId: "x-request-id",
  serverTiming: "server-timing",
  /** `hit`: the answer was given before; `miss`: it is kept from now on. Absent where answers are not kept. */
  cache: "x-cache",
  /** `1` asks for `metrics` beside the usage. */
  includeMetrics: "x-include-metrics",
  /** `1` asks for a stream at an even pace, within the gap that was promised. */
  pace: "x-sluice-pace",
  /** Asks for another of the tenant's classes. */
  className: "x-sluice-class",
  /** Tighten what the class promises, in ms; looser values change nothing. */
  ttftMs: "x-sluice-ttft-ms",
  tpotMs: "x-sluice-tpot-ms",
  /** Says what of the answer is less than was asked for, as the tenant's overload ladder has it. */
  degraded: "x-sluice-degraded",
} as const;
