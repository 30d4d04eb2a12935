/** A trace that is not what its format says; the message names line, expectation and finding. */
export class TraceError extends Error {
  override readonly name = "TraceError";
  readonly lineNumber: number;

  constructor(lineNumber: number, expected: string, found: string) {
    super(`Line ${lineNumber}: expected ${expected}, found ${found}`);
    this.lineNumber = lineNumber;
  }
}

/** Shortens what was found, so that a broken file cannot flood a terminal. */
export function shown(value: unknown): string {
  if (value === undefined) return "nothing";
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
