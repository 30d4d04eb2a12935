import type { RateStep } from "../workloads/rate-shape.ts";
import type { LengthTable } from "../workloads/length-table.ts";
import type { TenantProfile } from "../workloads/tenant-profile.ts";
import type { TenantTraffic, Workload } from "../workloads/workload.ts";
import type { ServeGenWindow } from "./servegen.ts";
import { SERVEGEN_WINDOW_MS } from "./servegen.ts";

/** Which part of a ServeGen recording is wanted, and what its clients are promised. */
export interface ServeGenOptions {
  readonly fromMs: number;
  readonly untilMs: number;
  /** The clients with the most requests in that time. */
  readonly tenantsMax: number;
  /** Multiplies all rates, to fit a model's whole service to a pool. */
  readonly rateFactor: number;
  readonly contract: Pick<TenantProfile, "share" | "targets" | "prefixes">;
}

/**
 * Makes a workload in which each client with known lengths is a tenant, its rate following the
 * recording window by window and its gaps those of the window with the most requests.
 */
export function serveGenWorkload(
  windows: Iterable<ServeGenWindow>,
  lengths: ReadonlyMap<string, LengthTable>,
  options: ServeGenOptions,
): Workload {
  const byClient = new Map<string, ServeGenWindow[]>();
  for (const window of windows) {
    if (window.atMs < options.fromMs || window.atMs >= options.untilMs) continue;
    if (!lengths.has(window.client)) continue;
    const own = byClient.get(window.client) ?? [];
    own.push(window);
    byClient.set(window.client, own);
  }
  return {
    tenants: [...byClient]
      .flatMap(([client, own]) => trafficOf(client, own, lengths.get(client), options))
      .toSorted((a, b) => b.startsPerSecond - a.startsPerSecond)
      .slice(0, options.tenantsMax),
  };
}

/** Wider gaps than this come from windows of a handful of requests. */
const CV_MAX = 30;
const CV_MIN = 0.1;

function trafficOf(
  client: string,
  windows: readonly ServeGenWindow[],
  lengths: LengthTable | undefined,
  { fromMs, rateFactor, contract }: ServeGenOptions,
): TenantTraffic[] {
  const [busiest] = windows.toSorted((a, b) => b.perSecond - a.perSecond);
  if (lengths === undefined || busiest?.intervals === undefined) return [];
  const meanPerSecond = windows.reduce((sum, { perSecond }) => sum + perSecond, 0) / windows.length;
  const { kind, cv } = busiest.intervals;
  const inOrder = windows.toSorted((a, b) => a.atMs - b.atMs);
  const steps: RateStep[] = inOrder.map(({ atMs, perSecond }) => ({
    untilMs: atMs + SERVEGEN_WINDOW_MS - fromMs,
    factor: perSecond / meanPerSecond,
  }));
  // The recording is over; nobody knows what comes then.
  steps.push({ untilMs: Infinity, factor: 0 });
  const intervals = { kind, cv: Math.min(Math.max(cv, CV_MIN), CV_MAX) };
  return [
    {
      profile: { ...contract, name: `client-${client}`, lengths, intervals },
      startsPerSecond: meanPerSecond * rateFactor,
      rateShapes: [{ kind: "steps", steps }],
    },
  ];
}
