/** One number that a promise is about, and the bound that it has to keep. */
export type Finding = {
  readonly what: string;
  readonly value: number;
} & ({ readonly atMost: number } | { readonly atLeast: number });

/** Whether a finding keeps its bound. A number that is none, since there was nothing to count, does not. */
export function isKept(finding: Finding): boolean {
  return "atMost" in finding ? finding.value <= finding.atMost : finding.value >= finding.atLeast;
}

/** The findings that break their bounds. */
export function brokenOf(findings: readonly Finding[]): Finding[] {
  return findings.filter((finding) => !isKept(finding));
}
