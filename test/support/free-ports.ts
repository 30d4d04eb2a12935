import { createServer } from "node:net";

/**
 * Returns ports of 127.0.0.1 that were free a moment ago, all different: each is held until the last
 * one is found. Nobody reserves them, so they are to be used at once.
 */
export async function takeFreePorts(count: number): Promise<readonly number[]> {
  const listeners = await Promise.all(Array.from({ length: count }, listenAnywhere));
  const ports = listeners.map((listener) => {
    const address = listener.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  });
  await Promise.all(listeners.map((listener) => new Promise((resolve) => listener.close(resolve))));
  return ports;
}

function listenAnywhere(): Promise<ReturnType<typeof createServer>> {
  return new Promise((resolve, reject) => {
    const listener = createServer();
    listener.once("error", reject);
    listener.listen(0, "127.0.0.1", () => resolve(listener));
  });
}
