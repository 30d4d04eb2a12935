import * as z from "zod";
import { ServiceTier } from "./generation-parameters.ts";
import { onlyNeutral, optional } from "./parameter-schemas.ts";
import { CACHE_PARAMETERS } from "./request-caching.ts";
import { faultOf } from "./validation.ts";

const METADATA_PAIRS_MAX = 16;
const LIST_MAX = 128;

const AnyObject = z.record(z.string(), z.unknown());

const Metadata = z
  .record(z.string().max(64), z.string().max(512))
  .refine(
    (pairs) => Object.keys(pairs).length <= METADATA_PAIRS_MAX,
    faultOf("invalid_value", `an object of at most ${METADATA_PAIRS_MAX} pairs`),
  );

/** Checked, then without effect: hints, labels and what other servers offer. */
const IGNORED = {
  metadata: optional(Metadata),
  prediction: optional(AnyObject),
  ...CACHE_PARAMETERS,
  reasoning_effort: optional(z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
  safety_identifier: optional(z.string().max(64)),
  service_tier: optional(ServiceTier),
  store: optional(z.boolean()),
  verbosity: optional(z.enum(["low", "medium", "high"])),
  web_search_options: optional(AnyObject),
};

const never = () => false;

/**
 * The parameters of a chat request that are checked but never change the engine's answer, either
 * because they mean nothing to it or because it takes only the value that means nothing.
 */
export const InertChatParameters = z.object({
  ...IGNORED,
  audio: onlyNeutral(AnyObject, never, "absent"),
  function_call: onlyNeutral(z.unknown(), never, "absent"),
  functions: onlyNeutral(z.unknown(), never, "absent"),
  modalities: onlyNeutral(
    z.array(z.string()).min(1).max(LIST_MAX),
    (modalities) => modalities.every((modality) => modality === "text"),
    '["text"]',
  ),
});

/** The same of a completion. */
export const InertCompletionParameters = z.object(IGNORED);
