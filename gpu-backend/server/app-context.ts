import type { HttpBindings } from "@hono/node-server";
import type { Hono } from "hono";
import type { EngineClient } from "../engine-client.ts";
import type { TokenBytes } from "../engine/tokenizer/token-bytes.ts";
import type { KvLender } from "../kv-peers/kv-lender.ts";
import type { Log } from "../log.ts";
import type { PromptEncoder } from "../prompt-encoder.ts";
import type { DispatchTracker } from "../engine/dispatch-tracker.ts";
import type { EndedRequests } from "./ended-requests.ts";
import type { EngineMetrics } from "./engine-metrics.ts";
import type { TokenLabels } from "./token-labels.ts";

/** The model that answers, as the API shows it. */
export interface ServedModel {
  readonly name: string;
  readonly createdAtSeconds: number;
  readonly systemFingerprint: string;
  /** Prompt and answer together: the model's context, or the KV pool if that is smaller. */
  readonly contextTokens: number;
  readonly blockTokens: number;
  readonly endTokenIds: readonly number[];
  /** Token ids run below it. */
  readonly vocabularyTokens: number;
  readonly prompts: PromptEncoder;
  readonly tokenBytes: TokenBytes;
  readonly tokenLabels: TokenLabels;
}

/** What all routes share. */
export interface AppContext {
  readonly engine: EngineClient;
  /** Undefined until the model is loaded. */
  readonly servedModel: () => ServedModel | undefined;
  /** Absent: whoever can connect is served. */
  readonly secret: string | undefined;
  readonly requireSalt: boolean;
  readonly prefixCache: boolean;
  readonly metrics: EngineMetrics;
  readonly dispatches: DispatchTracker;
  readonly endedRequests: EndedRequests;
  /** Absent: no other engine is given KV. */
  readonly kvLender?: KvLender | undefined;
  readonly log: Log;
}

/** What Hono's handlers find in their context. */
export interface EngineEnvironment {
  Bindings: HttpBindings;
  Variables: { requestId: string };
}

export type EngineApp = Hono<EngineEnvironment>;
