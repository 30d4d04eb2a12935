import { MessageChannel, type MessagePort } from "node:worker_threads";
import { KvLender } from "./kv-lender.ts";
import { KvLoader } from "./kv-loader.ts";
import type { FromEngine } from "./kv-messages.ts";
import type { KvNeighbours } from "./kv-neighbours.ts";

/** What of KV goes between engines, on the thread that serves HTTP. */
export interface KvService {
  readonly lender: KvLender;
  /** For the engine's thread. */
  readonly enginePort: MessagePort;
  /** From now on, and until its thread ends, the engine is a neighbour by that address. */
  join(url: string): void;
  close(): void;
}

/** Opens both directions of one engine: to who has the secret it gives, and it asks with the secret. */
export function openKvService(secret: string, neighbours?: KvNeighbours): KvService {
  const { port1: port, port2: enginePort } = new MessageChannel();
  const lender = new KvLender(port);
  const loader = new KvLoader(port, secret, neighbours);
  port.on("message", (message: FromEngine) => {
    if (message.kind === "lease" || message.kind === "bytes") lender.hear(message);
    else loader.hear(message);
  });
  return {
    lender,
    enginePort,
    join: (url) => {
      const leave = neighbours?.join(url, lender);
      if (leave !== undefined) port.once("close", leave);
    },
    close: () => {
      loader.close();
      port.close();
    },
  };
}
