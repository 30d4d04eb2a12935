/**
 * Has the events of one connection dealt with in the order in which they came, though some wait for
 * something: a report must not overtake its hello, nor a close the hello before it.
 */
export class SocketTurns {
  /** What of each connection is being dealt with: the next event waits for it. */
  readonly #turns = new WeakMap<WebSocket, Promise<void>>();

  async take(socket: WebSocket, deal: () => Promise<void>): Promise<void> {
    const before = this.#turns.get(socket) ?? Promise.resolve();
    const turn = before.then(deal);
    this.#turns.set(
      socket,
      turn.catch(() => {}),
    );
    await turn;
  }
}
