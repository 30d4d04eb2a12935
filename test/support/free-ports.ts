import { createServer } from "node:net";

/**
 * Below the ports that systems give to whoever asks for any: those are taken at every moment by connections
 * and servers of the programs under test, and then a gateway waits for its port for ever.
 */
const FIRST_PORT = 10_000;
const PORTS_PER_PROCESS = 1_000;
const PROCESSES = 20;

/** Test files run in several processes at once, each of which has ports of its own. */
const processNumber = Number(process.env["VITEST_POOL_ID"] ?? 0) % PROCESSES;
const firstPort = FIRST_PORT + processNumber * PORTS_PER_PROCESS;
let next = Math.floor(Math.random() * PORTS_PER_PROCESS);

/**
 * Returns ports of 127.0.0.1 that were free a moment ago, all different: each is held until the last
 * one is found. Nobody reserves them, so they are to be used at once.
 */
export async function takeFreePorts(count: number): Promise<readonly number[]> {
  const listeners: ReturnType<typeof createServer>[] = [];
  const ports: number[] = [];
  for (let tries = 0; ports.length < count; tries++) {
    if (tries === PORTS_PER_PROCESS) throw new Error("No port of this process is free");
    const port = firstPort + next;
    next = (next + 1) % PORTS_PER_PROCESS;
    // oxlint-disable-next-line no-await-in-loop -- until there are enough
    const listener = await listenAt(port);
    if (listener === undefined) continue;
    listeners.push(listener);
    ports.push(port);
  }
  await Promise.all(listeners.map((listener) => new Promise((resolve) => listener.close(resolve))));
  return ports;
}

/** Returns two such ports of which the second is the one after the first. */
export async function takeAdjacentPorts(): Promise<readonly [number, number]> {
  for (let tries = 0; tries < PORTS_PER_PROCESS; tries++) {
    // oxlint-disable-next-line no-await-in-loop -- until there are two
    const [first = 0, second = 0] = await takeFreePorts(2);
    if (second === first + 1) return [first, second];
  }
  throw new Error("No two ports of this process are free");
}

function listenAt(port: number): Promise<ReturnType<typeof createServer> | undefined> {
  return new Promise((resolve) => {
    const listener = createServer();
    listener.once("error", () => resolve(undefined));
    listener.listen(port, "127.0.0.1", () => resolve(listener));
  });
}
