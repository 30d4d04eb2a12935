import { ENGINE_HEADERS } from "../../../src/protocol/headers.ts";
import { eventually } from "../../support/eventually.ts";

/** A test's own access to one engine, past the gateway. */
export class EngineProbe {
  readonly name: string;
  readonly url: string;
  readonly pid: number;
  readonly #secret: string;

  constructor(engine: { name: string; url: string; pid: number; secret: string }) {
    this.name = engine.name;
    this.url = engine.url;
    this.pid = engine.pid;
    this.#secret = engine.secret;
  }

  /** Reads one of the engine's metrics. */
  async metric(name: string): Promise<number> {
    const response = await fetch(`${this.url}/metrics`, { headers: this.#headers() });
    const line = (await response.text()).split("\n").find((text) => text.startsWith(`${name} `));
    if (line === undefined) throw new Error(`${this.url} has no metric ${name}`);
    return Number(line.slice(name.length));
  }

  /** Waits until the engine has neither running nor waiting requests. */
  async whenIdle(): Promise<void> {
    await eventually(`${this.name} is idle`, async () => {
      const running = await this.metric("engine_num_requests_running");
      const waiting = await this.metric("engine_num_requests_waiting");
      return running + waiting === 0;
    });
  }

  /** Sends a chat completion straight to the engine, under a cache salt of its own unless headers say another. */
  async complete(
    body: Readonly<Record<string, unknown>>,
    headers: Readonly<Record<string, string>> = { [ENGINE_HEADERS.cacheSalt]: "probe" },
  ): Promise<unknown> {
    const response = await fetch(`${this.url}/v1/chat/completions`, {
      method: "POST",
      headers: {
        ...this.#headers(),
        "content-type": "application/json",
        ...headers,
      },
      body: JSON.stringify(body),
    });
    return response.json();
  }

  #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#secret}` };
  }
}
