import * as z from "zod";
import type { LiveConfiguration } from "../src/tenants/live-configuration.ts";
import { abortAfter } from "./abort-after.ts";
import { CommandFailure, messageOf } from "./command.ts";

/** A gateway's admin API: where it is and the key to it. */
export interface AdminAccess {
  readonly gatewayUrl: string;
  readonly adminKey: string;
}

const Applied = z.object({ version: z.int() });

/** What the gateway says of itself to its administrator, as far as the command line asks. */
export const GatewayStatus = z.object({
  configurationVersion: z.int(),
  pools: z.array(
    z.object({
      poolId: z.string(),
      replicas: z.array(z.object({ endpointUrl: z.string(), state: z.string() })),
    }),
  ),
});
export type GatewayStatus = z.infer<typeof GatewayStatus>;

const Ratio = z.number().nullable();
const SloWindow = z.object({
  attainment: Ratio,
  attainment_interval: z.tuple([z.number(), z.number()]).nullable(),
  error_budget_left: Ratio,
  burn_rate: z.number(),
  goodput_per_second: z.number(),
  acceptance: Ratio,
  refusals: z.record(z.string(), z.number()),
  misses: z.record(z.string(), z.number()),
});

/** How a tenant's promises are kept, as far as the command line reads it. */
const SloReport = z.looseObject({
  tenant: z.string(),
  classes: z.array(
    z.looseObject({
      class: z.string(),
      windows: z.record(z.string(), z.looseObject(SloWindow.shape)),
    }),
  ),
});
export type SloReport = z.infer<typeof SloReport>;

const SloPage = z.object({ data: z.array(SloReport), has_more: z.boolean() });

const Envelope = z.object({ error: z.object({ message: z.string() }) });

const ANSWER_WITHIN_MS = 10_000;

/**
 * Makes a configuration the live one and returns its version. With `expectedVersion` only if that
 * is the live version still. Throws `CommandFailure` with the gateway's own reason.
 */
export async function applyConfiguration(
  access: AdminAccess,
  configuration: LiveConfiguration,
  expectedVersion: number | undefined,
): Promise<number> {
  const body = { configuration, ...(expectedVersion === undefined ? {} : { expectedVersion }) };
  const answer = await callAdmin(access, "/configuration", {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return Applied.parse(answer).version;
}

/** Has a pool take nothing in any more, and refuse who waits. Throws as `applyConfiguration` does. */
export async function closePool(access: AdminAccess, poolId: string): Promise<void> {
  const path = `/pools/${encodeURIComponent(poolId)}/closed`;
  await callAdmin(access, path, { method: "PUT", headers: {} });
}

/** Asks which version is live and which replicas are there. Throws as `applyConfiguration` does. */
export async function fetchStatus(access: AdminAccess): Promise<GatewayStatus> {
  return GatewayStatus.parse(await callAdmin(access, "/status", { method: "GET", headers: {} }));
}

/** Asks how the promises to one tenant are kept, or to all. Throws as `applyConfiguration` does. */
export async function fetchSlo(
  access: AdminAccess,
  tenant: string | undefined,
): Promise<SloReport[]> {
  const ask = (query: string) => callAdmin(access, `/slo?${query}`, { method: "GET", headers: {} });
  if (tenant !== undefined) {
    return [SloReport.parse(await ask(new URLSearchParams({ tenant }).toString()))];
  }
  const reports: SloReport[] = [];
  let hasMore = true;
  while (hasMore) {
    const after = reports.at(-1)?.tenant ?? "";
    // oxlint-disable-next-line no-await-in-loop -- where a page begins the one before says
    const page = SloPage.parse(await ask(new URLSearchParams({ after }).toString()));
    reports.push(...page.data);
    hasMore = page.has_more && page.data.length > 0;
  }
  return reports;
}

async function callAdmin(
  { gatewayUrl, adminKey }: AdminAccess,
  path: string,
  init: { method: string; headers: Record<string, string>; body?: string },
): Promise<unknown> {
  const url = `${gatewayUrl}/admin/v1${path}`;
  let response: Response;
  try {
    response = await fetch(url, {
      ...init,
      headers: { ...init.headers, authorization: `Bearer ${adminKey}` },
      signal: abortAfter(ANSWER_WITHIN_MS),
    });
  } catch (error) {
    // fetch's own message says no more than that it failed; the cause says why.
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    throw new CommandFailure(`No answer from ${url}: ${messageOf(cause)}`);
  }
  const answer: unknown = await response.json().catch(() => undefined);
  if (response.ok) return answer;
  const envelope = Envelope.safeParse(answer);
  const reason = envelope.success ? envelope.data.error.message : "no reason was given";
  throw new CommandFailure(`The gateway at ${gatewayUrl} refused (${response.status}): ${reason}`);
}
