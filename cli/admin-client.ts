import * as z from "zod";
import { Applied, Changes, PoolClosed, ReplicaDrained } from "../src/tenants/admin-answers.ts";
import { thingsOf, toThingLine } from "../src/tenants/configuration-rows.ts";
import type { LiveConfiguration } from "../src/tenants/live-configuration.ts";
import { CONFIGURATION_LIMITS } from "../src/tenants/live-configuration.ts";
import { abortAfter } from "./abort-after.ts";
import { unlessAborted } from "./unless-aborted.ts";
import { CommandFailure, messageOf } from "./command.ts";

/** A gateway's admin API: where it is and the key to it. */
export interface AdminAccess {
  readonly gatewayUrl: string;
  readonly adminKey: string;
}

const PoolStatus = z.object({
  poolId: z.string(),
  /** Absent of a pool that cannot be asked at present. */
  isClosed: z.boolean().optional(),
  queued: z.int().optional(),
  leases: z.int().optional(),
  replicas: z.array(
    z.object({
      endpointUrl: z.string(),
      state: z.string(),
      health: z.string().optional(),
      outstanding: z.int().optional(),
    }),
  ),
});

/** What the gateway says of itself to its administrator, as far as the command line asks. */
export const GatewayStatus = z.object({
  configurationVersion: z.int(),
  pools: z.array(PoolStatus),
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
/** A hundred thousand keys take their time to be sent and compared. */
const APPLIED_WITHIN_MS = 120_000;
const KEYS_IN_DOCUMENT_MAX = 1_000;

/** How a configuration is applied. */
export interface ApplyOptions {
  /** Only if that is the live version still. */
  readonly expectedVersion?: number;
  /** For the history. */
  readonly reason?: string;
  /** After so long it is taken not to be heard. */
  readonly withinMs?: number;
}

/** Nothing came back, so nobody knows whether the gateway has heard. */
export class NoAnswer extends CommandFailure {
  override readonly name = "NoAnswer";
}

/** A request to the admin API. */
interface AdminRequest {
  readonly method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly body?: object;
  /** Instead of `body`: a body in lines. */
  readonly lines?: string;
  readonly withinMs?: number;
}

/** Makes a configuration the live one. Throws `CommandFailure` with the gateway's own reason. */
export async function applyConfiguration(
  access: AdminAccess,
  configuration: LiveConfiguration,
  options: ApplyOptions = {},
): Promise<Applied> {
  const request = toRequest(configuration, { ...options });
  return callAdmin(access, "/configuration", Applied, { ...request, method: "PUT" });
}

/** Asks what a configuration would change. Throws as `applyConfiguration` does. */
export async function previewConfiguration(
  access: AdminAccess,
  configuration: LiveConfiguration,
): Promise<Changes> {
  const request = toRequest(configuration, {});
  return callAdmin(access, "/configuration/diff", Changes, { ...request, method: "POST" });
}

/**
 * Has a pool take nothing in any more and refuse who waits, or opens it. Throws as `applyConfiguration` does.
 */
export async function closePool(
  access: AdminAccess,
  poolId: string,
  isClosed: boolean,
): Promise<void> {
  const method = isClosed ? "PUT" : "DELETE";
  await callAdmin(access, `/pools/${inPath(poolId)}/closed`, PoolClosed, { method });
}

/** Has nothing new sent to a replica, or has it used again. Throws as `applyConfiguration` does. */
export async function drainReplica(
  access: AdminAccess,
  { poolId, url }: { readonly poolId: string; readonly url: string },
  isDrained: boolean,
): Promise<void> {
  const path = `/pools/${inPath(poolId)}/replicas/${inPath(url)}/drained`;
  await callAdmin(access, path, ReplicaDrained, { method: isDrained ? "PUT" : "DELETE" });
}

/** Asks which version is live and which replicas are there. Throws as `applyConfiguration` does. */
export async function fetchStatus(access: AdminAccess): Promise<GatewayStatus> {
  return callAdmin(access, "/status", GatewayStatus);
}

/** Asks how the promises to one tenant are kept, or to all. Throws as `applyConfiguration` does. */
export async function fetchSlo(
  access: AdminAccess,
  tenant: string | undefined,
): Promise<SloReport[]> {
  if (tenant !== undefined)
    return [await callAdmin(access, "/slo", SloReport, { query: { tenant } })];
  const reports: SloReport[] = [];
  let hasMore = true;
  while (hasMore) {
    const after = reports.at(-1)?.tenant ?? "";
    // oxlint-disable-next-line no-await-in-loop -- where a page begins the one before says
    const page = await callAdmin(access, "/slo", SloPage, { query: { after } });
    reports.push(...page.data);
    hasMore = page.has_more && page.data.length > 0;
  }
  return reports;
}

/** Asks the admin API for something. Throws `CommandFailure` with the gateway's own reason. */
export async function callAdmin<Schema extends z.ZodType>(
  access: AdminAccess,
  path: string,
  schema: Schema,
  request: AdminRequest = {},
): Promise<z.output<Schema>> {
  const answer = schema.safeParse(await exchange(access, path, request));
  if (answer.success) return answer.data;
  throw new CommandFailure(
    `The gateway at ${access.gatewayUrl} answered what this version of sluice does not understand`,
  );
}

/** Writes a name of the user's as a part of a path. */
export function inPath(name: string): string {
  return encodeURIComponent(name);
}

/** Large configurations go in lines, so that the gateway never holds all of one. */
function toRequest(
  configuration: LiveConfiguration,
  { expectedVersion, reason, withinMs = APPLIED_WITHIN_MS }: ApplyOptions,
): AdminRequest {
  const options = {
    ...(expectedVersion !== undefined && { expectedVersion }),
    ...(reason !== undefined && { reason }),
  };
  const body = { configuration, ...options };
  const isSmall =
    configuration.keys.length <= KEYS_IN_DOCUMENT_MAX &&
    Buffer.byteLength(JSON.stringify(body)) <= CONFIGURATION_LIMITS.documentBytesMax;
  if (isSmall) return { body, withinMs };
  return {
    lines: [...thingsOf(configuration)].map(toThingLine).join("\n"),
    query: options,
    withinMs,
  };
}

async function exchange(
  { gatewayUrl, adminKey }: AdminAccess,
  path: string,
  { method = "GET", query = {}, body, lines, withinMs = ANSWER_WITHIN_MS }: AdminRequest,
): Promise<unknown> {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  const url = `${gatewayUrl}/admin/v1${path}${parameters.size === 0 ? "" : `?${parameters.toString()}`}`;
  const text = lines ?? (body === undefined ? undefined : JSON.stringify(body));
  const contentType = lines === undefined ? "application/json" : "application/x-ndjson";
  const signal = abortAfter(withinMs);
  let response: Response;
  let answer: unknown;
  try {
    const asked = fetch(url, {
      method,
      headers: {
        authorization: `Bearer ${adminKey}`,
        ...(text !== undefined && { "content-type": contentType }),
      },
      ...(text !== undefined && { body: text }),
      signal,
    });
    response = await unlessAborted(asked, signal);
    answer = await unlessAborted(
      response.json().catch(() => undefined),
      signal,
    );
  } catch (error) {
    // fetch's own message says no more than that it failed; the cause says why.
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    throw new NoAnswer(`No answer from ${url}: ${messageOf(cause)}`);
  }
  if (response.ok) return answer;
  const envelope = Envelope.safeParse(answer);
  const reason = envelope.success ? envelope.data.error.message : "no reason was given";
  throw new CommandFailure(`The gateway at ${gatewayUrl} refused (${response.status}): ${reason}`);
}
