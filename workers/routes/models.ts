import type { Context } from "hono";
import { ModelId } from "../../src/protocol/ids.ts";
import type { LiveModel } from "../../src/tenants/live-configuration.ts";
import { isNamed } from "../../src/tenants/live-configuration.ts";
import type { ModelCard, ModelList } from "../../src/protocol/model-card.ts";
import { modelCard } from "../../src/protocol/model-card.ts";
import { authenticate } from "../auth.ts";
import type { EdgeContext } from "../edge-context.ts";
import { GatewayError } from "../gateway-error.ts";
import { settingsOf } from "../settings.ts";

/** `GET /v1/models`: the models that the key's tenant may use, and no others. */
export async function listModels(c: Context<EdgeContext>): Promise<Response> {
  const models = await modelsOf(c);
  const data = models.flatMap((model) =>
    [model.modelId, ...(model.aliases ?? [])].map((name) => cardOf(model, name)),
  );
  return Response.json({ object: "list", data } satisfies ModelList);
}

/** `GET /v1/models/{id}`. Ids with a slash arrive percent-encoded or as they are. */
export async function retrieveModel(c: Context<EdgeContext>): Promise<Response> {
  const models = await modelsOf(c);
  const id = decode(new URL(c.req.url).pathname.slice(MODELS_PATH.length));
  const name = ModelId.safeParse(id).data;
  const model = models.find((candidate) => name !== undefined && isNamed(candidate, name));
  if (model === undefined || name === undefined) {
    throw new GatewayError({ code: "model_not_found", param: "model" });
  }
  return Response.json(cardOf(model, name));
}

const MODELS_PATH = "/v1/models/";

async function modelsOf(c: Context<EdgeContext>): Promise<readonly LiveModel[]> {
  const access = await authenticate(c.req.raw.headers, {
    env: c.env,
    settings: settingsOf(c.env),
    nowMs: c.var.arrivedAtMs,
    scope: "inference",
  });
  return access.models;
}

/** The configuration does not say since when there is a model, nor who made it. An alias names what it stands for. */
function cardOf({ modelId, contextTokens }: LiveModel, id: ModelId): ModelCard {
  const card = modelCard({ id, createdAtSeconds: 0, ownedBy: "sluice", contextTokens });
  return id === modelId ? card : { ...card, root: modelId };
}

function decode(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
