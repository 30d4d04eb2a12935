import type { RequestRecord } from "../request-record.ts";
import type { LoadBasis } from "../workloads/scenarios.ts";

/** What some requests cost together, by the prices in which loads are set. */
export function costMsOf(records: readonly RequestRecord[], { price }: LoadBasis): number {
  return records.reduce((sum, { spec }) => sum + price(spec), 0);
}
