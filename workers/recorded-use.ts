import {
  ENGINE_USAGE_IDS_MAX,
  ENGINE_USAGE_PATH,
  EngineUsageAnswer,
} from "../src/protocol/engine-usage.ts";
import type { PoolId, RequestId } from "../src/protocol/ids.ts";
import type { RecordedUse } from "../src/tenants/usage-ledger.ts";
import { engineOf } from "../src/tenants/live-configuration.ts";
import type { OpenRow } from "../src/tenants/usage-rows.ts";
import { DIRECTORY_NAME } from "./directory-object.ts";
import type { Env } from "./env.ts";
import { logLine } from "./log.ts";
import { readBody } from "./read-body.ts";
import { settingsOf } from "./settings.ts";

/** A replica that takes longer is not asked again this time. */
const ANSWER_MS_MAX = 2_000;
/** A thousand requests are some 130 KB. */
const ANSWER_BYTES_MAX = 1_048_576;

type Recorded = Map<RequestId, RecordedUse>;

/**
 * Asks the replicas of ours what requests have cost whose holders at the edge are gone. Which of them it
 * was nobody remembers, so all of a pool are asked; of several that know a request the one where it
 * went furthest counts. Nothing is known of servers that are not ours, and of replicas that are away or
 * began anew. Never rejects.
 */
export async function recordedUseOf(
  rows: readonly OpenRow[],
  env: Env,
): Promise<ReadonlyMap<RequestId, RecordedUse>> {
  const recorded: Recorded = new Map();
  const poolIds = new Set(rows.flatMap(({ poolId }) => poolId ?? []));
  const asking = [...poolIds].map(async (poolId) => {
    const ofPool = rows.filter((row) => row.poolId === poolId);
    const requestIds = ofPool.map(({ requestId }) => requestId);
    const endpointUrls = await endpointUrlsOf(poolId, env);
    await Promise.all(endpointUrls.map((url) => askReplica(url, requestIds, recorded, env)));
  });
  for (const result of await Promise.allSettled(asking)) {
    if (result.status === "rejected") logUnasked(result.reason);
  }
  return recorded;
}

/** A replica of a server that is not ours has no such record, and is given no secret of ours. */
async function endpointUrlsOf(poolId: PoolId, env: Env): Promise<readonly string[]> {
  const live = await env.DIRECTORY.getByName(DIRECTORY_NAME).poolConfiguration(poolId);
  if (live === undefined) return [];
  const { pool } = live;
  const ours = pool.replicas.filter((replica) => engineOf(pool, replica) === "sluice");
  return ours.map(({ endpointUrl }) => endpointUrl);
}

async function askReplica(
  endpointUrl: string,
  requestIds: readonly RequestId[],
  recorded: Recorded,
  env: Env,
): Promise<void> {
  try {
    for (let first = 0; first < requestIds.length; first += ENGINE_USAGE_IDS_MAX) {
      const part = requestIds.slice(first, first + ENGINE_USAGE_IDS_MAX);
      // oxlint-disable-next-line no-await-in-loop -- one that does not answer is not asked for the rest
      const { usage } = await askPart(endpointUrl, part, env);
      const asked = new Map<string, RequestId>(part.map((requestId) => [requestId, requestId]));
      for (const { request_id: name, ...counts } of usage) {
        const requestId = asked.get(name);
        if (requestId !== undefined) keepFurthest(recorded, requestId, counts);
      }
    }
  } catch (error) {
    logUnasked(error);
  }
}

async function askPart(
  endpointUrl: string,
  requestIds: readonly RequestId[],
  env: Env,
): Promise<EngineUsageAnswer> {
  const response = await fetch(`${endpointUrl.replace(/\/+$/, "")}${ENGINE_USAGE_PATH}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${settingsOf(env).replicaSecret}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ request_ids: requestIds }),
    // Following one would send the secret wherever the replica says.
    redirect: "manual",
    signal: AbortSignal.timeout(ANSWER_MS_MAX),
  });
  const body = await readBody(response.body, ANSWER_BYTES_MAX);
  if (!response.ok) throw new Error(`A replica answered ${response.status}`);
  return EngineUsageAnswer.parse(JSON.parse(new TextDecoder().decode(body)));
}

function keepFurthest(
  recorded: Recorded,
  requestId: RequestId,
  counts: Omit<EngineUsageAnswer["usage"][number], "request_id">,
): void {
  const before = recorded.get(requestId);
  if (before !== undefined && before.outputTokens >= counts.completion_tokens) return;
  recorded.set(requestId, {
    promptTokens: counts.prompt_tokens,
    outputTokens: counts.completion_tokens,
    cachedTokens: counts.cached_tokens,
  });
}

function logUnasked(error: unknown): void {
  logLine("error", "recorded-use-unknown", { details: String(error) });
}
