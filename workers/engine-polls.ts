import { ADAPTERS } from "../src/adapters/adapters.ts";
import type { EngineAdapter, ProbeAnswer } from "../src/adapters/engine-adapter.ts";
import type { EngineSignals } from "../src/protocol/engine-signals.ts";
import type { ReplicaId } from "../src/protocol/ids.ts";
import type { ReplicaSetState } from "../src/replicas/replica-set.ts";
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
/** Models come and go seldom. */
const MODELS_MS = 30_000;
/** Where somebody wanted one that was not known to be there; more often would be for who asks in vain. */
const WANTED_MODELS_MS = 5_000;

/** What the asking of a pool's servers works with. */
export interface EnginePollsOptions {
  /** Whether anybody waits or runs: else nobody is asked. */
  readonly isBusy: () => boolean;
  readonly settings: () => Settings;
  /** What the pool remembers of them. */
  readonly replicas: Readonly<Pick<ReplicaSetState, "get">>;
  /** Takes what a server said, or nothing where it did not answer. */
  readonly tell: (replicaId: ReplicaId, said: EngineSignals) => void;
}

interface AskedReplica {
  readonly replica: LiveReplica;
  readonly adapter: EngineAdapter;
}

/**
 * Asks the servers of a pool that are not ours how they are, about once a second while the pool has something
 * to do. Each kind's adapter says what to ask and how to read it; where that is nothing, nobody is asked.
 */
export class EnginePolls {
  readonly #options: EnginePollsOptions;
  #pool: LivePool | undefined;
  /** When each was last asked for its models. */
  #modelsAskedAtMs = new Map<ReplicaId, number>();
  #isAsking = false;

  constructor(options: EnginePollsOptions) {
    this.#options = options;
  }

  /** Asks the servers of another version of the configuration from now on. */
  follow(pool: LivePool): void {
    this.#pool = pool;
    // Anew of all: others may be behind the same names.
    this.#modelsAskedAtMs.clear();
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
    while (this.#isWorthAsking(asked)) {
      const way = this.#way();
      // oxlint-disable-next-line no-await-in-loop -- a round begins when the one before is over
      await Promise.all(
        asked.map(async ({ replica, adapter }) => {
          const { replicaId, endpointUrl } = replica;
          const isForModels = this.#areModelsDue(replica, adapter);
          if (isForModels) this.#modelsAskedAtMs.set(replicaId, Date.now());
          const [said, models] = await Promise.all([
            signalsAt(endpointUrl, adapter, way),
            isForModels ? modelsAt(endpointUrl, adapter, way) : undefined,
          ]);
          this.#options.tell(replicaId, { ...said, ...models });
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

  #isWorthAsking(asked: readonly AskedReplica[]): boolean {
    if (asked.length === 0) return false;
    const isWanted = ({ replica, adapter }: AskedReplica) =>
      this.#areModelsWanted(replica) && this.#areModelsDue(replica, adapter);
    return this.#options.isBusy() || asked.some(isWanted);
  }

  /** Whether somebody wanted one that it was not known to have. */
  #areModelsWanted({ replicaId }: LiveReplica): boolean {
    return this.#options.replicas.get(replicaId)?.models.isWanted === true;
  }

  /** Of one whose models are configured what it says itself counts for nothing. */
  #areModelsDue(replica: LiveReplica, adapter: EngineAdapter): boolean {
    if (adapter.models === undefined || replica.models !== undefined) return false;
    const sinceMs = Date.now() - (this.#modelsAskedAtMs.get(replica.replicaId) ?? -Infinity);
    return sinceMs >= (this.#areModelsWanted(replica) ? WANTED_MODELS_MS : MODELS_MS);
  }

  #asked(): readonly AskedReplica[] {
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

async function modelsAt(
  endpointUrl: string,
  { models }: EngineAdapter,
  way: Transport | undefined,
): Promise<Pick<EngineSignals, "models" | "answersAnyName">> {
  if (models === undefined) return {};
  const { path, readNames, answersAnyName } = models;
  const names = readNames(await answerOf(`${endpointUrl.replace(/\/+$/, "")}${path}`, way));
  if (names === undefined) return {};
  return { models: names, ...(answersAnyName && { answersAnyName }) };
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
