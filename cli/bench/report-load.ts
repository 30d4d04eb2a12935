import { toColumns } from "../verbs.ts";
import type { LoadResult, Quantiles } from "./load-result.ts";
import { failuresText } from "./reason-counts.ts";

export const TENANT_HEADS = [
  "tenant",
  "offered",
  "refused",
  "failed",
  "good of offered",
  "good of admitted [95 %]",
  "good/s",
  "TTFT p50/p90/p95/p99",
  "TPOT",
  "TBT",
  "E2E",
  "fluidity",
] as const;

/** Writes a result for people. */
export function reportLoad(result: LoadResult): string[] {
  const { duration, completed, rejected, failed, request_throughput: perSecond } = result;
  const goodput = result.request_goodput;
  return [
    `${result.model_id}: ${result.offered} requests due in ${duration.toFixed(1)} s, ` +
      `${completed} answered, ${rejected} refused, ${failuresText(failed - rejected, result.failures)}`,
    `${perSecond.toFixed(2)} requests/s and ${result.output_throughput.toFixed(0)} output tokens/s` +
      (goodput === null ? "" : `, goodput ${goodput.toFixed(2)} requests/s`),
    "",
    ...toColumns([[...TENANT_HEADS], ...tenantRows(result)]),
    "",
    "Times in ms from when a request was due; a failed answer is infinitely late (-). TBT within 1 %.",
    ...warningsOf(result),
  ];
}

/** One row a tenant, as `TENANT_HEADS` has it. */
export function tenantRows({ tenants }: LoadResult): string[][] {
  return tenants.map((tenant) => [
    tenant.name,
    String(tenant.offered),
    String(tenant.rejected),
    String(tenant.failed),
    percentText(tenant.attainment_offered),
    percentText(tenant.attainment_admitted) + intervalText(tenant.attainment_admitted_interval),
    tenant.request_goodput?.toFixed(2) ?? "-",
    quantilesText(tenant.ttft_ms),
    quantilesText(tenant.tpot_ms),
    quantilesText(tenant.tbt_ms),
    quantilesText(tenant.e2el_ms),
    tenant.fluidity_index.mean?.toFixed(3) ?? "-",
  ]);
}

/** What makes the figures of a result less than they seem. */
export function warningsOf(result: LoadResult): string[] {
  const { client, steady, interrupted, tenants } = result;
  const warnings: string[] = [];
  if (interrupted) warnings.push("Stopped before its end: a part of what was asked for");
  if (!client.kept_up) {
    warnings.push(
      `This side could not keep up: requests left ${msText(client.lateness_ms.p99)} ms late (p99), ` +
        `${client.held_requests} waited for one of ${result.max_concurrency} places. The figures hold for what the ` +
        "server got, which is less than was asked for",
    );
  }
  if (!steady.is_steady) {
    warnings.push(
      `Not a steady state: ${steady.under_way_first.toFixed(1)} requests were under way in the first half ` +
        `and ${steady.under_way_last.toFixed(1)} in the second`,
    );
  }
  if (!result.prompt_tokens_measured) {
    warnings.push("The server counts no tokens: lengths of prompts are guessed from words");
  }
  if (tenants.some(({ offered }) => offered > 0 && offered < 100)) {
    warnings.push("Fewer than 100 requests of a tenant: its p99 is its slowest request");
  }
  return warnings.map((warning) => `Warning: ${warning}`);
}

function quantilesText({ p50, p90, p95, p99 }: Quantiles): string {
  return [p50, p90, p95, p99].map(msText).join("/");
}

function msText(value: number | null): string {
  if (value === null) return "-";
  return value < 10 ? value.toFixed(1) : value.toFixed(0);
}

function percentText(ratio: number | null): string {
  return ratio === null ? "-" : `${(100 * ratio).toFixed(2)}%`;
}

function intervalText(interval: readonly [number, number] | null): string {
  if (interval === null) return "";
  return ` [${interval.map((ratio) => (100 * ratio).toFixed(2)).join(", ")}]`;
}
