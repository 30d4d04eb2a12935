import { ADAPTERS } from "../src/adapters/adapters.ts";
import type { EngineAdapter, ProbeAnswer } from "../src/adapters/engine-adapter.ts";
import type { EngineSignals } from "../src/protocol/engine-signals.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import type { LivePool, LiveReplica } from "../src/tenants/live-configuration.ts";
import { engineOf } from "../src/tenants/live-configuration.ts";
import { readBody } from "./read-body.ts";
import type { Settings } from "./settings.ts";
import type { Transport } from "./transport.ts";
import { transportFaultOf, transportOf } from "./transport.ts";

/** From one round to the next, give or take a fifth: pools that began together must not stay so. */
const ROUND_MS = 1_000;
const JITTER_RATIO = 0.2;
/** An answer that takes longer tells of another moment. */
const ANSWER_MS_MAX = 900;
/** Metrics of a server with many models; a larger text is none. */
const ANSWER_BYTES_MAX = 2_097_152;
/** Each costs a connection or two a second; those beyond are known by what was sent there. */
const REPLICAS_MAX = 16;

/** What the asking of a pool's servers works with. */
export interface EnginePollsOptions {
  /** Whether anybody waits or runs: else nobody is asked. */
  readonly isBusy: () => boolean;
  readonly settings: () => Settings;
  /** Takes what a server said, or nothing where it did not answer. */
  readonly tell: (replicaId: ReplicaId, said: EngineSignals) => void;
}

/**
 * Asks the servers of a pool that are not ours how they are, about once a second while the pool has something
 * to do. Each kind's adapter says what to ask and how to read it; where that is nothing, nobody is asked.
 */
export class EnginePolls {
  readonly #options: EnginePollsOptions;
  #pool: LivePool | undefined;
  #isAsking = false;

  constructor(options: EnginePollsOptions) {
    this.#options = options;
  }

  /** Asks the servers of another version of the configuration from now on. */
  follow(pool: LivePool): void {
    this.#pool = pool;
  }

  /** The pool has something to do. */
  wake(): void {
    if (this.#isAsking || this.#asked().length === 0) return;
    this.#isAsking = true;
    this.#ask()
      .catch(() => {})
      .finally(() => (this.#isAsking = false));
  }

  async #ask(): Promise<void> {
    let asked = this.#asked();
    while (this.#options.isBusy() && asked.length > 0) {
      const way = this.#way();
      // oxlint-disable-next-line no-await-in-loop -- a round begins when the one before is over
      await Promise.all(
        asked.map(async ({ replica: { replicaId, endpointUrl }, adapter }) => {
          this.#options.tell(replicaId, await signalsAt(endpointUrl, adapter, way));
        }),
      );
      const jitterMs = JITTER_RATIO * ROUND_MS * (2 * Math.random() - 1);
      // oxlint-disable-next-line no-await-in-loop -- see above
      await scheduler.wait(ROUND_MS + jitterMs);
      asked = this.#asked();
    }
    // What is not asked any more is not known any more.
    for (const { replica } of asked) this.#options.tell(replica.replicaId, {});
  }

  #asked(): readonly { readonly replica: LiveReplica; readonly adapter: EngineAdapter }[] {
    const pool = this.#pool;
    const replicas = pool?.replicas ?? [];
    const asked = replicas.flatMap((replica) => {
      const engine = pool === undefined ? "sluice" : engineOf(pool, replica);
      if (engine === "sluice") return [];
      const adapter = ADAPTERS[engine];
      return adapter.probePaths.length === 0 ? [] : [{ replica, adapter }];
    });
    return asked.slice(0, REPLICAS_MAX);
  }

  /** Without a valid secret, or a way, a server says nothing, which is what its requests come to as well. */
  #way(): Transport | undefined {
    const { secretName, transport } = this.#pool ?? {};
    const settings = this.#options.settings();
    if (transportFaultOf(transport, settings) !== undefined) return undefined;
    const way = transportOf(transport, settings);
    const found = secretName === undefined ? undefined : settings.poolSecretOf(secretName);
    const bearer = found?.kind === "known" && { authorization: `Bearer ${found.secret}` };
    return { fetch: way.fetch, headers: { ...way.headers, ...bearer } };
  }
}

async function signalsAt(
  endpointUrl: string,
  { probePaths, readSignals }: EngineAdapter,
  way: Transport | undefined,
): Promise<EngineSignals> {
  const baseUrl = endpointUrl.replace(/\/+$/, "");
  return readSignals(
    await Promise.all(probePaths.map((path) => answerOf(`${baseUrl}${path}`, way))),
  );
}

async function answerOf(url: string, way: Transport | undefined): Promise<ProbeAnswer> {
  if (way === undefined) return undefined;
  try {
    // Following a redirect would send the secret wherever the server says.
    const signal = AbortSignal.timeout(ANSWER_MS_MAX);
    const response = await way.fetch(url, { headers: way.headers, redirect: "manual", signal });
    const body = await readBody(response.body, ANSWER_BYTES_MAX);
    if (body === undefined) return undefined;
    const contentType = response.headers.get("content-type") ?? "";
    return { status: response.status, text: new TextDecoder().decode(body), contentType };
  } catch {
    return undefined;
  }
}
