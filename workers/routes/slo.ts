import type { Context } from "hono";
import type { TenantId } from "../../src/protocol/ids.ts";
import { addSloCounts } from "../../src/slo/slo-counts.ts";
import type { SloSums } from "../../src/slo/slo-record.ts";
import { SLO_WINDOWS } from "../../src/slo/slo-record.ts";
import type { SloClassReport } from "../../src/slo/slo-report.ts";
import { toSloReport } from "../../src/slo/slo-report.ts";
import { noSloCounts } from "../../src/slo/slo-counts.ts";
import { SLO_PAGE_MAX, SloQuery } from "../../src/tenants/admin-requests.ts";
import type { LiveTenant } from "../../src/tenants/live-configuration.ts";
import { shardName } from "../../src/tenants/tenant-shards.ts";
import { authenticate } from "../auth.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import type { Env } from "../env.ts";
import { GatewayError } from "../gateway-error.ts";
import { settingsOf } from "../settings.ts";
import { unknownThing } from "../unknown-thing.ts";

/** One tenant's report. */
interface SloReport {
  readonly object: "slo";
  readonly tenant: TenantId;
  readonly classes: readonly SloClassReport[];
}

const NO_STORE = { headers: { "cache-control": "no-store" } };

/** `GET /v1/slo`: how the promises to the calling key's tenant are kept. */
export async function tellSlo({ req, env, var: { arrivedAtMs } }: Context<EdgeContext>) {
  const { tenant } = await authenticate(req.raw.headers, {
    env,
    settings: settingsOf(env),
    nowMs: arrivedAtMs,
    scope: "usage",
  });
  return Response.json(await reportOn(tenant, env), NO_STORE);
}

/** `GET /admin/v1/slo?tenant=T`, or `?after=T&limit=N`: the same of one tenant, or of all, a page at a time. */
export async function tellAllSlo({ req, env }: Context<EdgeContext>) {
  const page = SloQuery.safeParse(req.query());
  if (!page.success) {
    throw new GatewayError({
      code: "invalid_value",
      message: `Expected 'tenant' or 'after' to be a tenant's name, and 'limit' to be from 1 to ${SLO_PAGE_MAX}`,
    });
  }
  const { tenant: wanted, after, limit } = page.data;
  const directory = env.DIRECTORY.getByName(DIRECTORY_NAME);
  if (wanted !== undefined) {
    const tenant = await directory.tenant(wanted);
    // Only tenants of the configuration exist: a name alone makes no object.
    if (tenant === undefined) throw unknownThing("tenant", wanted);
    return Response.json(await reportOn(tenant, env), NO_STORE);
  }
  const found = await directory.tenants(after, limit + 1);
  const data = await Promise.all(found.slice(0, limit).map((tenant) => reportOn(tenant, env)));
  return Response.json({ object: "list", data, has_more: found.length > limit }, NO_STORE);
}

async function reportOn(tenant: LiveTenant, env: Env): Promise<SloReport> {
  const { tenantId, className, targets, classes = [] } = tenant;
  const targetsOf = new Map([
    [className, targets],
    ...classes.map((one) => [one.className, one.targets] as const),
  ]);
  const sums = await sumsOf(tenantId, env);
  // What was promised is told also before anything was asked for.
  const unasked = [...targetsOf.keys()]
    .filter((name) => !sums.some((sum) => sum.className === name))
    .map((name) => ({ className: name, windows: SLO_WINDOWS.map(noSloCounts) }));
  const reports = [...sums, ...unasked]
    .toSorted((a, b) => (a.className < b.className ? -1 : 1))
    .map((sum) => toSloReport(sum, targetsOf.get(sum.className)));
  return { object: "slo", tenant: tenantId, classes: reports };
}

/** What became of a tenant's requests at all of its objects. */
async function sumsOf(tenantId: TenantId, env: Env): Promise<SloSums[]> {
  const ask = (shard: number) => env.TENANTS.getByName(shardName(tenantId, shard)).sloSums();
  const first = await ask(0);
  const others = await Promise.all(
    Array.from({ length: first.shardCount - 1 }, (_, index) => ask(index + 1)),
  );
  const byClass = new Map<string, SloSums>();
  for (const { className, windows } of [first, ...others].flatMap(({ classes }) => classes)) {
    const sum = byClass.get(className) ?? { className, windows: SLO_WINDOWS.map(noSloCounts) };
    for (const [index, counts] of sum.windows.entries()) {
      addSloCounts(counts, windows[index] ?? noSloCounts());
    }
    byClass.set(className, sum);
  }
  return [...byClass.values()];
}
