import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { EngineAdapter } from "../../src/adapters/engine-adapter.ts";
import type { EngineIdentity, OfferedModel } from "../../src/adapters/identify-engine.ts";
import { IDENTITY_PATHS, identifyEngine } from "../../src/adapters/identify-engine.ts";
import type { SluiceServer } from "../../src/adapters/identify-sluice.ts";
import {
  isOurRefusal,
  SLUICE_HEALTH_PATH,
  sluiceServerOf,
} from "../../src/adapters/identify-sluice.ts";
import type { Engine } from "../../src/protocol/engine-kind.ts";
import type { EngineSignals } from "../../src/protocol/engine-signals.ts";
import type { ServerAccess } from "./ask-server.ts";
import { answerOf, askServer } from "./ask-server.ts";
import type { AnswerFindings } from "./try-answer.ts";
import { tryAnswer } from "./try-answer.ts";

/** What a server turned out to be. */
export interface ServerFindings {
  readonly engine: Engine | undefined;
  /** Whether it is no engine but what stands in front of them. */
  readonly isGateway?: boolean;
  readonly label: string;
  readonly models: readonly OfferedModel[];
  readonly signals: EngineSignals;
  /** Whether KV of tenants is kept apart there. */
  readonly keepsTenantsApart: boolean;
  /** Of one short answer, where one was asked for. */
  readonly answer?: AnswerFindings;
  /** What would make it say more. */
  readonly advice: readonly string[];
  /** Why nothing could be learned, where that is so. */
  readonly trouble?: string;
}

const LABELS = {
  gateway: "a Sluice gateway, no engine: pools of its own stand behind it",
  engine: "gpu-backend, the engine that comes with Sluice",
} as const;

/** What is asked of a server beside which one it is. */
export interface ExamineOptions {
  readonly asksAnswer: boolean;
  /** The model to ask; absent: its first. */
  readonly modelId: string | undefined;
  /** The token of one of our engines, where that is known. It is shown to nobody else. */
  readonly engineToken?: string;
}

/**
 * Asks a server which one it is and what it says of itself. With `asksAnswer` it is asked for one short answer as
 * well, which costs it a few tokens; everything else costs it nothing.
 */
export async function examineServer(
  given: ServerAccess,
  options: ExamineOptions,
): Promise<ServerFindings> {
  const { access, ours, ...identity } = await identify(given, options.engineToken);
  const { engine, models } = identity;
  if (identity.trouble !== undefined) return { ...NOTHING, trouble: identity.trouble };
  if (ours === "gateway") return { ...NOTHING, isGateway: true, label: LABELS.gateway, models };
  if (engine === undefined) return { ...NOTHING, label: "no server with the OpenAI API", models };
  const answer = options.asksAnswer
    ? await answerOfModel(access, options.modelId ?? models[0]?.modelId, ours === "engine")
    : undefined;
  const told = { engine, models, ...(answer !== undefined && { answer }) };
  if (engine === "sluice") {
    return { ...NOTHING, ...told, label: LABELS.engine, keepsTenantsApart: true };
  }
  const adapter = ADAPTERS[engine];
  const signals = await readSignals(access, adapter);
  return {
    ...told,
    label: adapter.label,
    signals,
    keepsTenantsApart: adapter.keepsNamespaces,
    advice: adviceOf(adapter, signals, answer),
  };
}

const NOTHING: ServerFindings = {
  engine: undefined,
  label: "unknown",
  models: [],
  signals: {},
  keepsTenantsApart: false,
  advice: [],
};

interface Identified extends EngineIdentity {
  /** As it answers. */
  readonly access: ServerAccess;
  readonly ours?: SluiceServer;
  readonly trouble?: string;
}

async function identify(
  access: ServerAccess,
  engineToken: string | undefined,
): Promise<Identified> {
  const asked = await Promise.all(IDENTITY_PATHS.map((path) => askServer(access, path)));
  const [listed] = asked;
  if (listed?.kind === "silent" && asked.every(({ kind }) => kind === "silent")) {
    return { access, engine: undefined, models: [], trouble: `No answer: ${listed.reason}` };
  }
  if (listed?.kind === "answered" && [401, 403].includes(listed.answer.status)) {
    const isOurs = isOurRefusal(listed.answer);
    const ours = isOurs ? await askWhichOfOurs(access) : undefined;
    if (ours === "engine" && access.token === undefined && engineToken !== undefined) {
      return identify({ ...access, token: engineToken }, undefined);
    }
    const nothing = { access, engine: undefined, models: [], ...(ours && { ours }) };
    // Which one it is, is known, and there is no more to know.
    if (ours === "gateway") return nothing;
    const trouble = `/v1/models answers ${listed.answer.status}: ${wantedToken(ours)}`;
    return { ...nothing, trouble };
  }
  const answers = IDENTITY_PATHS.map((path, index) => {
    const one = asked[index];
    return [path, one && answerOf(one)] as const;
  });
  const identity = identifyEngine(new Map(answers));
  const isOurs = identity.engine === "sluice";
  return { ...identity, access, ...(isOurs && { ours: await askWhichOfOurs(access) }) };
}

async function askWhichOfOurs(access: ServerAccess): Promise<SluiceServer> {
  return sluiceServerOf(answerOf(await askServer(access, SLUICE_HEALTH_PATH)));
}

function wantedToken(ours: SluiceServer | undefined): string {
  if (ours !== "engine") return "give its token by --token-env";
  return (
    "it is an engine of Sluice, whose token is SLUICE_REPLICA_SECRET: give it by " +
    '--token-env SLUICE_REPLICA_SECRET, or --local where "sluice up" runs it'
  );
}

async function answerOfModel(
  access: ServerAccess,
  modelId: string | undefined,
  isOurs: boolean,
): Promise<AnswerFindings> {
  if (modelId === undefined) return { kind: "failed", reason: "it lists no model: give --model" };
  return tryAnswer(access, modelId, isOurs);
}

async function readSignals(
  access: ServerAccess,
  { probePaths, readSignals: read }: EngineAdapter,
): Promise<EngineSignals> {
  return read((await Promise.all(probePaths.map((path) => askServer(access, path)))).map(answerOf));
}

function adviceOf(
  { advice }: EngineAdapter,
  signals: EngineSignals,
  answer: AnswerFindings | undefined,
): readonly string[] {
  const lacks = (name: (typeof advice)[number]["lacking"]): boolean =>
    name === "cached_tokens"
      ? answer !== undefined && answer.kind === "answered" && !answer.tellsCachedTokens
      : signals[name] === undefined;
  return advice.flatMap(({ lacking, advice: text }) =>
    lacks(lacking) ? [`${lacking} is not told: ${text}`] : [],
  );
}
