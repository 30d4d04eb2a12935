import { runCommandLine } from "../../../cli/main.ts";

/** What a command line came to. */
export interface Run {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line in this program and keeps what it writes. */
export async function runRecorded(...words: readonly string[]): Promise<Run> {
  const printed: string[] = [];
  const complaints: string[] = [];
  const exitCode = await runCommandLine(words, {
    print: (line) => printed.push(line),
    complain: (line) => complaints.push(line),
  });
  return { exitCode, stdout: printed.join("\n"), stderr: complaints.join("\n") };
}
