import * as z from "zod";
import { CacheSalt } from "./generation-parameters.ts";
import { ModelId } from "./ids.ts";
import { integerWithin, onlyNeutral, withDefault } from "./parameter-schemas.ts";
import { TextInputs, textInputs } from "./text-input.ts";

/** A request for the vectors of texts. */
export const EmbeddingsRequest = z.object({
  model: ModelId,
  input: TextInputs,
  encoding_format: withDefault(z.enum(["float", "base64"]), "float"),
  dimensions: onlyNeutral(integerWithin(1), () => false, "absent"),
  cache_salt: CacheSalt,
});
export type EmbeddingsRequest = z.infer<typeof EmbeddingsRequest>;

/** As many as the API of old has. How many fit its batch, a model server knows. */
const EDGE_TEXTS_MAX = 2_048;

/** What the edge reads of a request for vectors. All else passes untouched. */
export const EmbeddingsRequestShape = z.object({
  model: ModelId,
  input: textInputs(EDGE_TEXTS_MAX),
  cache_salt: CacheSalt,
});

/** The vectors of texts, in the order of the request. */
export interface EmbeddingsAnswer {
  readonly object: "list";
  readonly data: readonly {
    readonly object: "embedding";
    readonly index: number;
    /** Numbers, or the base64 of as many little-endian 32-bit floats. */
    readonly embedding: readonly number[] | string;
  }[];
  readonly model: string;
  readonly usage: { readonly prompt_tokens: number; readonly total_tokens: number };
}
