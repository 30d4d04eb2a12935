/** What anything thrown has to say. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
