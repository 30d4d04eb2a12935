/** How much work one request is; all that its price depends on. */
export interface RequestSize {
  readonly promptTokens: number;
  /** Leading tokens of the prompt that all requests of its prefix group begin with. */
  readonly prefixTokens: number;
  /** How long the answer will be; the gateway is never told. */
  readonly outputTokens: number;
}

/**
 * One request of a workload, generated or recorded.
 *
 * Its prompt is defined, not stored (see `promptTokenIds`): `prefixTokens` tokens of its prefix group,
 * then the tokens of its session, or tokens that no other request has. A later turn of a session
 * therefore begins with the whole prompt and answer of the turn before.
 */
export interface ArrivalSpec extends RequestSize {
  /** From the start of the workload. */
  readonly atMs: number;
  readonly tenantIndex: number;
  /** Unique over all tenants; means nothing where `prefixTokens` is 0. */
  readonly prefixGroup: number;
  /** Unique over all tenants; absent: the request stands alone. */
  readonly sessionId?: number;
  /** The client's own limit, never below `outputTokens`; absent: it set none. */
  readonly outputTokensMax?: number;
  /** True: no replica can serve it, each fails at once, as at a prompt that its engine cannot digest. */
  readonly isPoisonous?: boolean;
  /** Where a trace tells exactly what prompts share; it then overrides prefix group and session. */
  readonly promptBlocks?: PromptBlocks;
}

/** A recorded prompt in blocks: two prompts are equal in a block exactly if its id is the same. */
export interface PromptBlocks {
  readonly blockTokens: number;
  /** One for each begun block of the prompt. */
  readonly ids: readonly number[];
}
