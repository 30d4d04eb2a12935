import type { Finding } from "../../../simulator/promises/finding.ts";
import { brokenOf } from "../../../simulator/promises/finding.ts";

/** Worlds of thousands of requests take seconds, and longer where other tests run beside them. */
export const LONG = { timeout: 120_000 } as const;

/** What was found under such a name, to hold two runs against each other. */
export function valueOf(findings: readonly Finding[], name: string): number {
  const found = findings.find(({ what }) => what.includes(name));
  if (found === undefined) throw new Error(`Expected a finding with ${name}, found none`);
  return found.value;
}

/** That a finding with such a name breaks its bound. */
export function breaks(name: string) {
  return (findings: readonly Finding[]): boolean =>
    brokenOf(findings).some(({ what }) => what.includes(name));
}
