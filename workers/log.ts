type Fields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * Writes one line of JSON. Never a prompt, an answer, a key or a salt: logs outlive requests and
 * are read by more people.
 */
export function logLine(level: "info" | "error", event: string, fields: Fields): void {
  const line = JSON.stringify({ level, event, ...fields });
  if (level === "error") console.error(line);
  else console.log(line);
}
