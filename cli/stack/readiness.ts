import { setTimeout as sleep } from "node:timers/promises";
import * as z from "zod";
import type { ErrorCode } from "../../src/protocol/errors.ts";
import type { ReplicaCondition } from "../../src/replicas/replica-condition.ts";
import type { AdminAccess } from "../admin-client.ts";
import { fetchStatus } from "../admin-client.ts";
import { abortAfter } from "../abort-after.ts";
import { unlessAborted } from "../unless-aborted.ts";
import type { Child } from "./child.ts";
import { FailureStreak } from "./failure-streak.ts";
import { isBuildFailure } from "./gateway-child.ts";
import { pollUntil } from "./poll.ts";
import { StackFailure } from "./stack-failure.ts";

const ANSWER_WITHIN_MS = 2000;
const WATCH_EVERY_MS = 2000;
// Longer than at the start, since by now others use the machine's cores as well.
const WATCHED_ANSWER_WITHIN_MS = 3000;
const SERVING: ReplicaCondition = "ready";

/** Waits until the gateway answers; throws `StackFailure` if it says that it never will. */
export async function awaitGateway(
  url: string,
  gateway: Child,
  signal: AbortSignal,
): Promise<void> {
  await pollUntil(async () => {
    if (gateway.tail.some(isBuildFailure)) {
      throw new StackFailure("The gateway cannot start", gateway.tail);
    }
    const health = await askHealth(url, ANSWER_WITHIN_MS);
    if (health.kind === "misconfigured") throw new StackFailure(health.reason, []);
    return health.kind === "serving";
  }, signal);
}

/** Waits until each of these replicas has connected to its pool and may be given requests. */
export async function awaitReplicas(
  admin: AdminAccess,
  endpointUrls: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  await pollUntil(async () => {
    const { pools } = await fetchStatus(admin);
    const serving = pools
      .flatMap((pool) => pool.replicas)
      .filter(({ state }) => state === SERVING)
      .map(({ endpointUrl }) => endpointUrl);
    return endpointUrls.every((endpointUrl) => serving.includes(endpointUrl));
  }, signal);
}

/**
 * Asks a gateway that has served whether it still does, until `signal`; throws `StackFailure` once it
 * has not for a while. Its workerd programs are not children of ours, and wrangler, which is, goes on
 * without them as if nothing had happened.
 */
export async function watchGateway(
  url: string,
  gateway: Child,
  signal: AbortSignal,
): Promise<void> {
  const streak = new FailureStreak();
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop
    await sleep(WATCH_EVERY_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    // oxlint-disable-next-line no-await-in-loop
    const health = await askHealth(url, WATCHED_ANSWER_WITHIN_MS);
    if (signal.aborted) return;
    if (streak.take(health.kind === "serving", performance.now())) {
      throw new StackFailure(`The gateway at ${url} no longer answers`, gateway.tail);
    }
  }
}

type Health =
  | { readonly kind: "serving" }
  | { readonly kind: "silent" }
  | { readonly kind: "misconfigured"; readonly reason: string };

const Misconfigured = z.object({
  error: z.object({ code: z.literal("not_configured" satisfies ErrorCode), message: z.string() }),
});

async function askHealth(url: string, withinMs: number): Promise<Health> {
  const signal = abortAfter(withinMs);
  try {
    const response = await unlessAborted(fetch(`${url}/health`, { signal }), signal);
    const answer: unknown = await unlessAborted(response.json(), signal);
    if (response.ok) return { kind: "serving" };
    const misconfigured = Misconfigured.safeParse(answer);
    if (!misconfigured.success) return { kind: "silent" };
    return { kind: "misconfigured", reason: misconfigured.data.error.message };
  } catch {
    return { kind: "silent" };
  }
}
