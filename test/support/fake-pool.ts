import type { IncomingHttpHeaders } from "node:http";
import { type WebSocket, WebSocketServer } from "ws";
import { ReplicaFrame } from "../../src/protocol/engine-api.ts";

/** One connection of a replica, as the pool saw it. */
export interface ReplicaConnection {
  readonly socket: WebSocket;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Everything that came, checked against the protocol, in order. */
  readonly frames: ReplicaFrame[];
}

/** The pool's end of the replica protocol: it only listens. */
export interface FakePool {
  readonly url: string;
  readonly connections: readonly ReplicaConnection[];
  close(): Promise<void>;
}

/** Listens for replicas on a port, 0 for any free one. `accepts` decides on each handshake. */
export async function startFakePool(
  options: { readonly port?: number; readonly accepts?: () => boolean } = {},
): Promise<FakePool> {
  const listener = new WebSocketServer({
    host: "127.0.0.1",
    port: options.port ?? 0,
    verifyClient: options.accepts ?? (() => true),
  });
  const connections: ReplicaConnection[] = [];
  listener.on("connection", (socket, incoming) => {
    const connection: ReplicaConnection = {
      socket,
      path: incoming.url ?? "",
      headers: incoming.headers,
      frames: [],
    };
    connections.push(connection);
    socket.on("message", (message: Buffer) => {
      connection.frames.push(ReplicaFrame.parse(JSON.parse(message.toString())));
    });
  });
  await new Promise((resolve) => listener.once("listening", resolve));
  const address = listener.address();
  if (typeof address !== "object" || address === null) throw new Error("Expected a TCP address");
  return {
    url: `ws://127.0.0.1:${address.port}/internal/pools/local`,
    connections,
    close: async () => {
      for (const socket of listener.clients) socket.terminate();
      await new Promise((resolve) => listener.close(resolve));
    },
  };
}
