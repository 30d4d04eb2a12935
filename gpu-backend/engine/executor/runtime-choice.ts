/** What an operator may ask for; `auto` is the fastest that there is, without a GPU. */
export const RUNTIME_CHOICES = ["auto", "wasm", "node", "webgpu"] as const;
export type RuntimeChoice = (typeof RUNTIME_CHOICES)[number];

/** Why a runtime does not run a model in a precision, in words for the operator; absent if it does. */
export function refusalOf(runtime: RuntimeChoice, precision: "f32" | "int8"): string | undefined {
  if (runtime !== "webgpu" || precision === "f32") return undefined;
  return "webgpu multiplies floats only, and int8 would be left to the processor; take --precision f32";
}
