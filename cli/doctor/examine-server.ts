import { ADAPTERS } from "../../src/adapters/adapters.ts";
import type { EngineAdapter } from "../../src/adapters/engine-adapter.ts";
import type { EngineIdentity, OfferedModel } from "../../src/adapters/identify-engine.ts";
import { IDENTITY_PATHS, identifyEngine } from "../../src/adapters/identify-engine.ts";
import type { Engine } from "../../src/protocol/engine-kind.ts";
import type { EngineSignals } from "../../src/protocol/engine-signals.ts";
import type { ServerAccess } from "./ask-server.ts";
import { answerOf, askServer } from "./ask-server.ts";
import type { AnswerFindings } from "./try-answer.ts";
import { tryAnswer } from "./try-answer.ts";

/** What a server turned out to be. */
export interface ServerFindings {
  readonly engine: Engine | undefined;
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

const OURS = "gpu-backend, the engine that comes with Sluice";

/**
 * Asks a server which one it is and what it says of itself. With `model` it is asked for one short answer as well,
 * which costs it a few tokens; everything else costs it nothing.
 */
export async function examineServer(
  access: ServerAccess,
  options: { readonly asksAnswer: boolean; readonly modelId: string | undefined },
): Promise<ServerFindings> {
  const identity = await identify(access);
  if (identity.trouble !== undefined) return { ...NOTHING, trouble: identity.trouble };
  const { engine, models } = identity;
  if (engine === undefined || engine === "sluice") {
    const label = engine === undefined ? "no server with the OpenAI API" : OURS;
    return { ...NOTHING, engine, label, models, keepsTenantsApart: engine === "sluice" };
  }
  const adapter = ADAPTERS[engine];
  const signals = await readSignals(access, adapter);
  const modelId = options.modelId ?? models[0]?.modelId;
  const answer =
    options.asksAnswer && modelId !== undefined ? await tryAnswer(access, modelId) : undefined;
  return {
    engine,
    label: adapter.label,
    models,
    signals,
    keepsTenantsApart: adapter.namespaceMembers !== undefined,
    ...(answer !== undefined && { answer }),
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

async function identify(
  access: ServerAccess,
): Promise<EngineIdentity & { readonly trouble?: string }> {
  const asked = await Promise.all(IDENTITY_PATHS.map((path) => askServer(access, path)));
  const [listed] = asked;
  if (listed?.kind === "silent" && asked.every(({ kind }) => kind === "silent")) {
    return { engine: undefined, models: [], trouble: `No answer: ${listed.reason}` };
  }
  if (listed?.kind === "answered" && [401, 403].includes(listed.answer.status)) {
    const trouble = `/v1/models answers ${listed.answer.status}: give its token by --token-env`;
    return { engine: undefined, models: [], trouble };
  }
  const answers = IDENTITY_PATHS.map((path, index) => {
    const one = asked[index];
    return [path, one && answerOf(one)] as const;
  });
  return identifyEngine(new Map(answers));
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
