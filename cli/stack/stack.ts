import { setTimeout as sleep } from "node:timers/promises";
import type { AdminAccess } from "../admin-client.ts";
import { closePool } from "../admin-client.ts";
import { abortAfter, abortWith } from "../abort-after.ts";
import { applyUntilHeard } from "./apply-until-heard.ts";
import type { ChildPlan } from "./child.ts";
import { Child } from "./child.ts";
import type { EngineOptions } from "./engine-child.ts";
import { planEngineChild } from "./engine-child.ts";
import { EngineSupervisor } from "./engine-supervisor.ts";
import type { GatewayAddress } from "./gateway-child.ts";
import { toLocalUrl } from "./gateway-child.ts";
import { pollUntil, whenAborted } from "./poll.ts";
import type { PortNeed } from "./ports.ts";
import { awaitGateway, awaitReplicas, watchGateway } from "./readiness.ts";
import type { Secrets } from "./secrets.ts";
import type { StackEvent } from "./stack-event.ts";
import { StackFailure } from "./stack-failure.ts";
import type { EnginePlan, StackPlan } from "./stack-plan.ts";

/** What a stack consists of, and where it tells what happens. */
export interface StackWiring {
  readonly plan: StackPlan;
  /** The port that an engine listens on, and how the user changes it. */
  readonly toPortNeed: (engine: EnginePlan) => PortNeed;
  readonly gateway: {
    readonly address: GatewayAddress;
    readonly childPlan: Omit<ChildPlan, "onLine">;
  };
  readonly secrets: Secrets;
  readonly engineOptions: Pick<
    EngineOptions,
    "precision" | "runtime" | "kvHostMib" | "modelFolder" | "buildFolder"
  >;
  readonly report: (event: StackEvent) => void;
  /** Receives what the parts write: the part's name and the line. */
  readonly onLine: (part: string, line: string) => void;
}

/** How the user ends a stack. */
export interface StackEnding {
  /** Every part may finish what it is about. */
  readonly stop: AbortSignal;
  /** Every part ends at once; heeded after `stop`. */
  readonly kill: AbortSignal;
}

const READY_WITHIN_MS = 120_000;
const CAUSE_WITHIN_MS = 1000;
/** A gateway that is well takes some milliseconds; without an answer it is stopped all the same. */
const POOLS_CLOSED_WITHIN_MS = 1000;
/** What an engine wrote last still has to pass through the gateway to the client. */
const LAST_BYTES_WITHIN_MS = 500;

/**
 * Runs a gateway and its engines as one thing, from their start until `ending.stop`; when it
 * returns or throws, every part is gone. An engine that dies is started again while the others
 * serve. Throws `StackFailure` if the gateway dies or falls silent, an engine will not stay up, or the
 * parts do not come to serve together; `onReady` is called once they do.
 */
export async function runStack(
  wiring: StackWiring,
  ending: StackEnding,
  onReady: () => void,
): Promise<void> {
  const lost = new AbortController();
  const over = abortWith([ending.stop, lost.signal]);
  const lose = (failure: unknown) => {
    if (!over.aborted) lost.abort(failure);
  };

  const gateway = startGateway(wiring, lose);
  const engines = startEngines(wiring, lose);
  const killAll = () => {
    for (const part of [gateway, ...engines]) part.kill();
  };
  ending.kill.addEventListener("abort", killAll, { once: true });
  try {
    await becomeReady(wiring, { gateway, engines }, over);
    if (!over.aborted) {
      onReady();
      const gatewayUrl = toLocalUrl("http", wiring.gateway.address);
      watchGateway(gatewayUrl, gateway, over).catch(lose);
    }
  } catch (failure) {
    // A part that dies shows first as a connection that is refused; its own end says more.
    await Promise.race([whenAborted(over), sleep(CAUSE_WITHIN_MS)]);
    lose(failure);
  }
  await whenAborted(over);

  await closePools(wiring, ending.kill);
  await stopParts(gateway, engines, ending.kill);
  if (lost.signal.aborted) throw lost.signal.reason;
}

/**
 * Refuses those who wait while there is a gateway to tell them: the engines that they wait for take
 * nothing new, and with the gateway their streams would break off without a word.
 */
async function closePools(wiring: StackWiring, kill: AbortSignal): Promise<void> {
  const admin = adminAccessOf(wiring);
  const closing = wiring.plan.configuration.pools.map(({ poolId }) =>
    closePool(admin, poolId, true),
  );
  const signal = abortAfter(POOLS_CLOSED_WITHIN_MS, kill);
  await Promise.race([Promise.allSettled(closing), whenAborted(signal)]);
}

/**
 * Stops the engines, which take nothing new and finish what runs, and only then the gateway through
 * which that goes out: so every stream gets its end.
 */
async function stopParts(
  gateway: Child,
  engines: readonly EngineSupervisor[],
  kill: AbortSignal,
): Promise<void> {
  await Promise.all(engines.map((engine) => engine.stop()));
  const signal = abortAfter(LAST_BYTES_WITHIN_MS, kill);
  await Promise.race([gateway.exited, whenAborted(signal)]);
  await gateway.stop();
}

type Lose = (failure: unknown) => void;

function startGateway(wiring: StackWiring, lose: Lose): Child {
  const gateway = new Child({
    ...wiring.gateway.childPlan,
    onLine: (line) => wiring.onLine("gateway", line),
  });
  void gateway.exited.then(({ cause }) =>
    lose(new StackFailure(`The gateway died (${cause})`, gateway.tail)),
  );
  return gateway;
}

function startEngines(wiring: StackWiring, lose: Lose): readonly EngineSupervisor[] {
  const options: EngineOptions = {
    ...wiring.engineOptions,
    replicaSecret: wiring.secrets.SLUICE_REPLICA_SECRET,
    gatewaySocketUrl: toLocalUrl("ws", wiring.gateway.address),
  };
  return wiring.plan.engines.map((plan) => {
    const engine = new EngineSupervisor({
      plan,
      portNeed: wiring.toPortNeed(plan),
      childPlan: planEngineChild(plan, options, wiring.plan.engines),
      report: wiring.report,
      onLine: (line) => wiring.onLine(plan.name, line),
    });
    engine.run().catch(lose);
    return engine;
  });
}

/** Brings the parts to serve together: the gateway, then its configuration, then the replicas. */
async function becomeReady(
  wiring: StackWiring,
  { gateway, engines }: { gateway: Child; engines: readonly EngineSupervisor[] },
  over: AbortSignal,
): Promise<void> {
  const tooLong = abortAfter(READY_WITHIN_MS);
  const signal = abortWith([over, tooLong]);
  const admin = adminAccessOf(wiring);
  let awaited = "the gateway to answer";
  try {
    await awaitGateway(admin.gatewayUrl, gateway, signal);
    await applyUntilHeard(admin, wiring.plan.configuration, signal);
    awaited = "every engine to be ready";
    await pollUntil(async () => engines.every((engine) => engine.hasServed), signal);
    awaited = "every replica to connect to its pool";
    const endpointUrls = wiring.plan.engines.map((engine) => engine.endpointUrl);
    await awaitReplicas(admin, endpointUrls, signal);
  } catch (error) {
    if (!tooLong.aborted || over.aborted) throw error;
    const sentence = `Not ready: waited ${READY_WITHIN_MS / 1000} s for ${awaited}`;
    throw new StackFailure(sentence, gateway.tail);
  }
}

function adminAccessOf({ gateway, secrets }: StackWiring): AdminAccess {
  const gatewayUrl = toLocalUrl("http", gateway.address);
  return { gatewayUrl, adminKey: secrets.SLUICE_ADMIN_KEY };
}
