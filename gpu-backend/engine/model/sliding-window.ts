import type { Architecture } from "./architectures.ts";
import type { ParsedConfigJson } from "./config-json.ts";

/**
 * How many tokens a token attends to at most, itself among them, in any of the layers; undefined where
 * all of them attend to all that came before.
 */
export function windowOf(
  config: Pick<
    ParsedConfigJson,
    | "sliding_window"
    | "use_sliding_window"
    | "max_window_layers"
    | "layer_types"
    | "num_hidden_layers"
  >,
  architecture: Pick<Architecture, "slidingWindow" | "usesWindowUnasked">,
): number | undefined {
  const window =
    config.sliding_window === undefined ? architecture.slidingWindow : config.sliding_window;
  if (window === undefined || window === null) return undefined;
  if (!(config.use_sliding_window ?? architecture.usesWindowUnasked)) return undefined;
  const { layer_types: types, max_window_layers: firstWindowed } = config;
  if (types !== undefined && types !== null) {
    return types.every((type) => type === "full_attention") ? undefined : window;
  }
  if (firstWindowed !== undefined && firstWindowed !== null) {
    return firstWindowed >= config.num_hidden_layers ? undefined : window;
  }
  return window;
}
