import { env, exports } from "cloudflare:workers";
import { expect, vi } from "vitest";
import { decodeDecisions } from "../../../src/pool/decision-lines.ts";
import type { DecisionRecord } from "../../../src/pool/decision-log.ts";
import type { PoolStatus } from "../../../src/pool/pool-status.ts";
import { ModelId, PoolId, TenantId } from "../../../src/protocol/ids.ts";
import type { ReplicaRole } from "../../../src/protocol/engine-api.ts";
import { SseDecoder } from "../../../src/protocol/sse.ts";
import type {
  LiveModel,
  LivePool,
  LiveReplica,
  LiveTenant,
} from "../../../src/tenants/live-configuration.ts";
import type { ModelPrice } from "../../../src/tenants/model-price.ts";
import { aLiveConfiguration, applyConfiguration } from "./configuration.ts";
import type { ConnectedReplica, ReplicaWish } from "./replica.ts";
import { connectReplica } from "./replica.ts";
import type { Upstream } from "./upstream.ts";
import { anUpstream } from "./upstream.ts";

/** What is particular about a gateway of a test. */
export interface GatewayWish {
  /** 1 when absent. All of them are dialled in and idle. */
  readonly replicaCount?: number;
  readonly replica?: ReplicaWish;
  /** What each of them was started for; everything when absent. */
  readonly roles?: readonly ReplicaRole[];
  readonly tenant?: Partial<LiveTenant>;
  readonly otherTenant?: Partial<LiveTenant>;
  /** What the tenant and the other one are guaranteed of the pool; each half of it when absent. */
  readonly guaranteedRatios?: readonly [number, number];
  /** How urgent the tenant is, and the other one; both 0 when absent. */
  readonly bands?: readonly [number, number];
  /** The name by which clients know the model. */
  readonly modelId?: string;
  /** Further names of it. */
  readonly aliases?: readonly string[];
  readonly contextTokens?: number;
  /** What the model's tokens cost; nothing when absent. */
  readonly price?: ModelPrice;
  /** Models beside it in the same pool. */
  readonly furtherModels?: readonly Partial<LiveModel>[];
  readonly queueMax?: number;
  /** What the configuration says of each replica. */
  readonly replicaSettings?: readonly Partial<LiveReplica>[];
  /** What is particular about the pool; replicas of engine `openai` are servers that dial in nowhere. */
  readonly pool?: Partial<LivePool>;
}

/** What a client sends; everything else is a plain, valid chat request. */
interface AskWish {
  /** Another operation's; the body then begins with nothing but the model. */
  readonly path?: string;
  /** The first tenant's when absent. */
  readonly key?: string;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** The Worker under test with a configuration of its own: a tenant, a model and a pool. */
export interface TestGateway {
  readonly key: string;
  /** Of a second tenant, who may use the same model. */
  readonly otherKey: string;
  readonly tenantId: TenantId;
  readonly poolId: PoolId;
  readonly modelId: string;
  /**
   * What all replicas answer: its script does not depend on which of them is asked, as the pool now
   * and then asks another one than it should, to learn.
   */
  readonly upstream: Upstream;
  readonly replicas: readonly ConnectedReplica[];
  /** Asks for a completion with the tenant's key. */
  readonly ask: (wish?: AskWish) => Promise<Response>;
  readonly poolStatus: () => Promise<PoolStatus>;
  /** The pool's log, as far as it has come. */
  readonly decisions: () => Promise<readonly DecisionRecord[]>;
}

/**
 * Makes a configuration live that no other test knows, so that nothing the Worker remembers of
 * them (keys, pools) can matter, and connects its replicas.
 */
export async function aGateway(wish: GatewayWish = {}): Promise<TestGateway> {
  const { replicaCount = 1, modelId = "sluice-tiny" } = wish;
  const name = crypto.randomUUID();
  const key = `sk-test-${name}`;
  const poolId = PoolId.parse(`pool-${name}`);
  const tenantId = TenantId.parse(`tenant-${name}`);
  const otherKey = `sk-test-other-${name}`;
  const otherTenantId = TenantId.parse(`other-${name}`);
  const modelIds = [ModelId.parse(modelId)];
  const [ratio, otherRatio] = wish.guaranteedRatios ?? [0.45, 0.45];
  const [band, otherBand] = wish.bands ?? [0, 0];
  const upstream = anUpstream();
  const endpointUrls = Array.from({ length: replicaCount }, (_, address) =>
    upstream.endpointUrlOf(address),
  );
  await applyConfiguration(
    aLiveConfiguration({
      endpointUrls,
      ...(wish.replicaSettings !== undefined && { replicas: wish.replicaSettings }),
      pool: {
        poolId,
        ...(wish.queueMax !== undefined && { queueMax: wish.queueMax }),
        ...wish.pool,
      },
      model: {
        poolId,
        modelId: ModelId.parse(modelId),
        ...(wish.contextTokens !== undefined && { contextTokens: wish.contextTokens }),
        ...(wish.price !== undefined && { price: wish.price }),
        ...(wish.aliases !== undefined && {
          aliases: wish.aliases.map((alias) => ModelId.parse(alias)),
        }),
      },
      furtherModels: (wish.furtherModels ?? []).map((model) => ({ poolId, ...model })),
      tenants: [
        { tenantId, modelIds, shares: sharesOf(poolId, ratio, band), ...wish.tenant },
        {
          tenantId: otherTenantId,
          modelIds,
          shares: sharesOf(poolId, otherRatio, otherBand),
          ...wish.otherTenant,
        },
      ],
      keys: [
        { key, tenantId },
        { key: otherKey, tenantId: otherTenantId },
      ],
    }),
  );
  const dialling = wish.pool?.engine === "openai" ? [] : endpointUrls;
  const replicas = await Promise.all(
    dialling.map((endpointUrl, index) => {
      const role = wish.roles?.[index];
      const hello = { ...wish.replica?.hello, ...(role !== undefined && { role }) };
      return connectReplica(endpointUrl, { ...wish.replica, hello, poolId });
    }),
  );
  const pool = env.POOLS.getByName(poolId);
  await vi.waitFor(async () => {
    const { replicas: known } = await pool.status(poolId);
    expect(known.map(({ state }) => state)).toEqual(endpointUrls.map(() => "ready"));
  }, WAIT);
  // One that nobody holds may be collected, and then its client has left.
  const responses: Response[] = [];
  const ask = async ({
    path,
    body,
    headers,
    signal,
    ...asked
  }: AskWish = {}): Promise<Response> => {
    const prompt = path === undefined ? { messages: MESSAGES } : {};
    const init = {
      method: "POST",
      headers: {
        authorization: `Bearer ${asked.key ?? key}`,
        "content-type": "application/json",
        ...headers,
      },
      body: JSON.stringify({ model: modelId, ...prompt, ...body }),
    };
    const whole = signal === undefined ? init : { ...init, signal };
    const response = await fetchGateway(path ?? CHAT_PATH, whole);
    responses.push(response);
    return response;
  };
  const poolStatus = () => pool.status(poolId);
  const decisions = async (): Promise<readonly DecisionRecord[]> => {
    const text = await new Response(await pool.decisions(poolId)).text();
    return decodeDecisions(text).records;
  };
  const names = { key, otherKey, tenantId, poolId, modelId };
  return { ...names, upstream, replicas, ask, poolStatus, decisions };
}

function sharesOf(poolId: PoolId, guaranteedRatio: number, band: number): LiveTenant["shares"] {
  return [{ poolId, weight: 1, guaranteedRatio, band }];
}

/** How long a test waits for what must happen; far longer than it takes on an idle machine. */
export const WAIT = { timeout: 10_000, interval: 5 };

export const CHAT_PATH = "/v1/chat/completions";
export const COMPLETION_PATH = "/v1/completions";
export const EMBEDDINGS_PATH = "/v1/embeddings";
const MESSAGES = [{ role: "user", content: "Tell me a story." }];

/** Sends a request to the Worker under test. */
export function fetchGateway(path: string, init: RequestInit = {}): Promise<Response> {
  return exports.default.fetch(new Request(`https://gateway.test${path}`, init));
}

/** Waits until nothing of a gateway's pool is in use any more. */
export async function becomesIdle(gateway: TestGateway): Promise<void> {
  await vi.waitFor(async () => {
    expect(await gateway.poolStatus()).toMatchObject({ leases: 0, queued: 0 });
  }, WAIT);
}

/** One event as a client sees it: its name, and its data parsed unless it is `[DONE]`. */
export interface ClientEvent {
  readonly event?: string;
  readonly data: unknown;
}

/** Reads a stream to its end, as a client does. */
export async function readEvents(response: Response): Promise<ClientEvent[]> {
  return eventsOf(await response.text());
}

/** Reads the events in a stream's text. */
export function eventsOf(text: string): ClientEvent[] {
  const utf8 = new TextDecoder();
  const sse = new SseDecoder({
    decodeUtf8: (bytes) => utf8.decode(bytes),
    eventBytesMax: 4_194_304,
  });
  return sse.push(new TextEncoder().encode(text)).frames.map(({ data, ...name }) => {
    const parsed: unknown = data === "[DONE]" ? data : JSON.parse(data);
    return { ...name, data: parsed };
  });
}

/** Puts the text of the first choice together from its chunks, of a chat or a completion. */
export function textOf(events: readonly ClientEvent[]): string {
  const choices = events.map(({ data }) => Object(data).choices?.[0]);
  return choices.map((choice) => choice?.delta?.content ?? choice?.text ?? "").join("");
}

/** The event that ends a stream whose answer is not whole. */
export function errorEvent(code: string): object {
  return {
    event: "error",
    data: { error: { code, message: expect.any(String), param: null, type: "server_error" } },
  };
}
