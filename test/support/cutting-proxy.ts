import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** Stands between a client and a server, and does something once so many bytes of an answer went by. */
export class CuttingProxy {
  /** Called once, in the midst of an answer. */
  onCut: (() => void) | undefined;
  bytesBeforeCut = Infinity;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(port: number) {
    this.#server = createServer((client) => this.#join(client, connect(port, "127.0.0.1")));
  }

  /** Listens for connections that go on to this port. */
  static async to(port: number): Promise<CuttingProxy> {
    const proxy = new CuttingProxy(port);
    await new Promise<void>((resolve) => {
      proxy.#server.listen(0, "127.0.0.1", resolve);
    });
    return proxy;
  }

  get url(): string {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it listens on a port
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<unknown>((resolve) => this.#server.close(resolve));
  }

  #join(client: Socket, server: Socket): void {
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => other.destroy());
    }
    client.pipe(server);
    let bytes = 0;
    server.on("data", (data) => {
      if (this.onCut !== undefined && bytes + data.length > this.bytesBeforeCut) {
        // What is under way at the other side's end is lost with it.
        const { onCut } = this;
        this.onCut = undefined;
        client.write(data.subarray(0, this.bytesBeforeCut - bytes));
        server.removeAllListeners("data");
        onCut();
        return;
      }
      bytes += data.length;
      client.write(data);
    });
  }
}
