import { readdirSync } from "node:fs";
import OpenAI from "openai";
import * as z from "zod";
import { fetchStatus } from "../../../cli/admin-client.ts";
import { Child } from "../../../cli/stack/child.ts";
import { findPortProblems } from "../../../cli/stack/ports.ts";
import type { RunFolder } from "../../../cli/stack/run-folder.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import type { Secrets } from "../../../cli/stack/secrets.ts";
import { provideSecrets } from "../../../cli/stack/secrets.ts";
import type { SseFrame } from "../../../src/protocol/sse.ts";
import { SseDecoder } from "../../../src/protocol/sse.ts";
import { eventually } from "../../support/eventually.ts";
import { takeFreePorts } from "../../support/free-ports.ts";
import { pidOf } from "../../support/live-programs.ts";
import { writeLocalConfiguration } from "../../support/local-configuration.ts";
import { EngineProbe } from "./engine-probe.ts";

const LAUNCHER = new URL("../../../cli/sluice.mjs", import.meta.url).pathname;

const EVENT_BYTES_MAX = 1_000_000;

/** One line of `sluice up --json`, as far as tests look at it. */
const UpEvent = z.looseObject({ event: z.string() });
type UpEvent = z.infer<typeof UpEvent>;

const EngineStarted = z.object({ name: z.string(), url: z.string(), pid: z.int() });
const Ready = z.object({
  url: z.string(),
  demoKeys: z.array(z.object({ tenant: z.string(), key: z.string() })),
});

/** Twenty lines of 2000 characters, each of which JSON may write as six. */
const EVENT_LENGTH_MAX = 250_000;

/** A gateway and its engines as `sluice up` runs them: real programs, on ports of their own. */
export class RunningStack {
  readonly secrets: Secrets;
  readonly gatewayPort: number;
  readonly replicaPorts: readonly number[];
  readonly #cli: Child;
  /** The configuration that it was started with. */
  readonly file: string;
  readonly #folder: RunFolder;
  readonly #events: UpEvent[] = [];
  readonly #lines: string[] = [];

  private constructor(
    folder: RunFolder,
    secrets: Secrets,
    [gatewayPort = 0, ...replicaPorts]: readonly number[],
    flags: readonly string[],
    original?: URL,
  ) {
    this.#folder = folder;
    this.secrets = secrets;
    this.gatewayPort = gatewayPort;
    this.replicaPorts = replicaPorts;
    this.file = writeLocalConfiguration(folder.path, replicaPorts, original);
    const words = [
      "up",
      this.file,
      "--port",
      String(gatewayPort),
      "--json",
      "--verbose",
      "--exit-with-stdin",
    ];
    this.#cli = new Child({
      command: [process.execPath, LAUNCHER, ...words, ...flags],
      folder: folder.path,
      // An event that tells of a failure has the last lines of whatever failed.
      lineLengthMax: EVENT_LENGTH_MAX,
      // With a folder for temporary files of its own, a test sees what is left behind.
      environment: { ...process.env, ...secrets, TMPDIR: folder.path },
      onLine: (line) => {
        this.#lines.push(line);
        if (line.startsWith("{")) this.#events.push(UpEvent.parse(JSON.parse(line)));
      },
    });
  }

  /** Starts one; returns at once, before anything serves. */
  static async start(...flags: readonly string[]): Promise<RunningStack> {
    const ports = await takeFreePorts(3);
    return new RunningStack(createRunFolder(), provideSecrets({}), ports, flags);
  }

  /** Starts one and waits until it is ready. */
  static async ready(...flags: readonly string[]): Promise<RunningStack> {
    return (await RunningStack.start(...flags)).#becomeReady();
  }

  /** Starts one of another configuration, its replicas at the given ports, and waits until it is ready. */
  static async readyWith(
    original: URL,
    replicaPorts: readonly number[],
    ...flags: readonly string[]
  ): Promise<RunningStack> {
    const ports = [...(await takeFreePorts(1)), ...replicaPorts];
    const stack = new RunningStack(createRunFolder(), provideSecrets({}), ports, flags, original);
    return stack.#becomeReady();
  }

  async #becomeReady(): Promise<this> {
    try {
      await this.awaitEvent("ready");
    } catch (error) {
      await this.dispose();
      throw error;
    }
    return this;
  }

  get gatewayUrl(): string {
    return `http://127.0.0.1:${this.gatewayPort}`;
  }

  /** A folder for whatever a test writes; it goes with the stack. */
  get folderPath(): string {
    return this.#folder.path;
  }

  /** The id of the command line's own program. */
  get pid(): number {
    return pidOf(this.#cli);
  }

  /** The engines that were started last under their names. */
  get engines(): readonly EngineProbe[] {
    const latest = new Map<string, EngineProbe>();
    for (const event of this.eventsOf("engine-started")) {
      const { name, url, pid } = EngineStarted.parse(event);
      latest.set(
        name,
        new EngineProbe({ name, url, pid, secret: this.secrets.SLUICE_REPLICA_SECRET }),
      );
    }
    return [...latest.values()];
  }

  /** Reads one metric of each engine. */
  metricOfEach(name: string): Promise<readonly number[]> {
    return Promise.all(this.engines.map((engine) => engine.metric(name)));
  }

  /** Waits until no engine has a running or waiting request. */
  async whenIdle(): Promise<void> {
    await Promise.all(this.engines.map((engine) => engine.whenIdle()));
  }

  /** All that it has said: its events, and the log of each program. */
  get said(): string {
    return this.#lines.join("\n");
  }

  eventsOf(name: string): readonly UpEvent[] {
    return this.#events.filter(({ event }) => event === name);
  }

  /** Waits until the gateway has both of its engines, also after one of them began anew. */
  async whenAllReady(): Promise<void> {
    const admin = { gatewayUrl: this.gatewayUrl, adminKey: this.secrets.SLUICE_ADMIN_KEY };
    await eventually("both replicas are ready", async () => {
      const { pools } = await fetchStatus(admin);
      const states = pools.flatMap((pool) => pool.replicas.map((replica) => replica.state));
      return states.length === 2 && states.every((state) => state === "ready");
    });
  }

  /** Waits for the `count`th event of a name; fails at once if the command line ends before it. */
  async awaitEvent(name: string, count = 1): Promise<UpEvent> {
    let hasEnded = false;
    void this.#cli.exited.then(() => (hasEnded = true));
    await eventually(
      `${count} × "${name}" of sluice up`,
      () => hasEnded || this.eventsOf(name).length >= count,
      60_000,
    ).catch((cause: unknown) => {
      throw new Error(`${String(cause)}\nIt has said:\n${this.#cli.tail.join("\n")}`, { cause });
    });
    const event = this.eventsOf(name)[count - 1];
    if (event === undefined) throw new Error(`sluice up ended:\n${this.#cli.tail.join("\n")}`);
    return event;
  }

  /** The demo key of a tenant of `sluice.local.yaml`. */
  keyOf(tenant: string): string {
    const [ready] = this.eventsOf("ready");
    const found = Ready.parse(ready).demoKeys.find((demoKey) => demoKey.tenant === tenant);
    if (found === undefined) throw new Error(`There is no demo key of ${tenant}`);
    return found.key;
  }

  /** The official client, as a tenant's program would use it; it never tries again by itself. */
  clientOf(tenant: string): OpenAI {
    return new OpenAI({
      apiKey: this.keyOf(tenant),
      baseURL: `${this.gatewayUrl}/v1`,
      maxRetries: 0,
      timeout: 30_000,
    });
  }

  /** What the gateway tells Prometheus. */
  async metrics(): Promise<string> {
    const headers = { authorization: `Bearer ${this.secrets.SLUICE_ADMIN_KEY}` };
    return (await fetch(`${this.gatewayUrl}/metrics`, { headers })).text();
  }

  /** Yields the frames of a long streamed answer as they come, without a client that hides any. */
  async *streamStory(tenant: string, change: object = {}): AsyncGenerator<SseFrame> {
    const response = await fetch(`${this.gatewayUrl}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${this.keyOf(tenant)}`,
        "content-type": "application/json",
      },
      body: JSON.stringify({
        model: "sluice-tiny",
        stream: true,
        temperature: 0,
        messages: [{ role: "user", content: "Tell me a very long story." }],
        ...change,
      }),
    });
    if (response.status !== 200) throw new Error(await response.text());
    const decoder = new SseDecoder({
      decodeUtf8: (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes),
      eventBytesMax: EVENT_BYTES_MAX,
    });
    for await (const bytes of response.body ?? []) yield* decoder.push(bytes).frames;
  }

  /** Waits until the command line has ended and returns how it did. */
  async ended(): Promise<string> {
    return (await this.#cli.exited).cause;
  }

  /** Sends a signal to the command line, waits until it has ended and returns how it did. */
  async end(signal: NodeJS.Signals = "SIGTERM"): Promise<string> {
    process.kill(this.pid, signal);
    return this.ended();
  }

  /** Ends what is left of it, if anything, and what it has written. */
  async dispose(): Promise<void> {
    await this.#cli.stop();
    this.#folder.remove();
  }

  /** Lists the temporary files and folders of the run that are there. */
  listLeftovers(): readonly string[] {
    return readdirSync(this.#folder.path).filter((name) => name.startsWith("sluice-"));
  }

  /** Lists the ports of the stack that something listens on. */
  async listTakenPorts(): Promise<readonly number[]> {
    const ports = [this.gatewayPort, ...this.replicaPorts];
    const isTaken = await Promise.all(
      ports.map(async (port) => {
        const need = { host: "127.0.0.1", port, needer: "the test", remedy: "", hostRemedy: "" };
        return (await findPortProblems([need])).length > 0;
      }),
    );
    return ports.filter((_, index) => isTaken[index]);
  }
}
