import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder of one run that nobody else can read; it goes with the run. */
export interface RunFolder {
  readonly path: string;
  /** Writes a file that only this user can read and returns its path. */
  writeSecret(name: string, text: string): string;
  remove(): void;
}

/** Makes a fresh, empty run folder. */
export function createRunFolder(): RunFolder {
  // mkdtemp makes it with mode 0700.
  const path = mkdtempSync(join(tmpdir(), "sluice-"));
  return {
    path,
    writeSecret(name, text) {
      const file = join(path, name);
      writeFileSync(file, text, { mode: 0o600, flag: "wx" });
      return file;
    },
    remove: () => rmSync(path, { recursive: true, force: true, maxRetries: 3 }),
  };
}
