/** What an operator may ask for; `auto` is the fastest that there is. */
export const RUNTIME_CHOICES = ["auto", "wasm", "node"] as const;
export type RuntimeChoice = (typeof RUNTIME_CHOICES)[number];
