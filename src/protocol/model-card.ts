/** One model as `GET /v1/models/{id}` shows it. */
export interface ModelCard {
  readonly id: string;
  readonly object: "model";
  /** Seconds since the epoch. */
  readonly created: number;
  readonly owned_by: string;
  /** The model's context length in tokens; clients of vLLM read this name. */
  readonly max_model_len: number;
  /** The model that an alias stands for, by vLLM's name for it. */
  readonly root?: string;
}

/** The answer of `GET /v1/models`. */
export interface ModelList {
  readonly object: "list";
  readonly data: readonly ModelCard[];
}

/** Builds a card; `createdAtSeconds` counts from the epoch. */
export function modelCard(model: {
  readonly id: string;
  readonly createdAtSeconds: number;
  readonly ownedBy: string;
  readonly contextTokens: number;
}): ModelCard {
  return {
    id: model.id,
    object: "model",
    created: model.createdAtSeconds,
    owned_by: model.ownedBy,
    max_model_len: model.contextTokens,
  };
}
