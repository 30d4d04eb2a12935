import { once } from "node:events";
import type { Server } from "node:http";
import { assert } from "../../src/base/assert.ts";

/** A server on a port of loopback that was free. */
export interface ListeningServer {
  readonly url: string;
  /** Ends its connections as well, and comes back when it is closed. */
  readonly close: () => Promise<void>;
}

export async function listenOnLoopback(server: Server): Promise<ListeningServer> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  assert(typeof address === "object" && address !== null, "a TCP server has an address object");
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: async () => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
