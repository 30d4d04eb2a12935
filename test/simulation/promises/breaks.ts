import type { Finding } from "../../../simulator/promises/finding.ts";
import { brokenOf } from "../../../simulator/promises/finding.ts";

/** Worlds of thousands of requests take seconds, and longer where other tests run beside them. */
export const LONG = { timeout: 120_000 } as const;

/** That a finding with such a name breaks its bound. */
export function breaks(name: string) {
  return (findings: readonly Finding[]): boolean =>
    brokenOf(findings).some(({ what }) => what.includes(name));
}
