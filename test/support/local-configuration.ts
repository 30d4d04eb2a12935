import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const LOCAL_FILE = new URL("../../sluice.local.yaml", import.meta.url);
const REPLICA_URL = /http:\/\/127\.0\.0\.1:\d+/g;

/**
 * Writes a copy of a configuration, `sluice.local.yaml` unless told otherwise, into `folder` whose replicas
 * listen on other ports, so that it can run beside the original. Returns the file's path. There must be a
 * port for each replica.
 */
export function writeLocalConfiguration(
  folder: string,
  ports: readonly number[],
  original: URL = LOCAL_FILE,
): string {
  const free = [...ports];
  const text = readFileSync(original, "utf8").replaceAll(REPLICA_URL, () => {
    const port = free.shift();
    if (port === undefined) throw new Error("The configuration has more replicas than ports");
    return `http://127.0.0.1:${port}`;
  });
  const file = join(folder, "sluice.yaml");
  writeFileSync(file, text);
  return file;
}
