type LogLevel = "info" | "warn" | "error";

/** Writes one event. Fields are facts about the event: never a prompt, an answer or a key. */
export type Log = (
  level: LogLevel,
  event: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** Returns a log that hands over one JSON object a line, with the wall clock's instant first. */
export function createLog(writeLine: (line: string) => void): Log {
  return (level, event, fields) => {
    writeLine(`${JSON.stringify({ at: new Date().toISOString(), level, event, ...fields })}\n`);
  };
}
