import type { Vocabulary } from "./vocabulary.ts";

/** What a grammar thread is started with. */
export interface GrammarThreadInput {
  readonly vocabulary: Vocabulary;
}

/** To a grammar thread. It does one after the other, in order. */
export type GrammarCommand =
  /** Replaces the grammar; no sequence may be open. */
  | { readonly kind: "compile"; readonly grammar: string }
  /** Follows a new sequence from behind the tokens that it has; its masks go to the memory. */
  | {
      readonly kind: "open";
      readonly id: number;
      readonly emittedTokens: readonly number[];
      readonly memory: SharedArrayBuffer;
    }
  | { readonly kind: "accept"; readonly id: number; readonly tokenId: number }
  /** Forgets the last so many tokens. No mask comes of that: another token is accepted next. */
  | { readonly kind: "go-back"; readonly id: number; readonly tokens: number }
  | { readonly kind: "close"; readonly id: number };

/** From a grammar thread. */
export type GrammarMessage =
  | { readonly kind: "started" }
  /** The answer to `compile`. */
  | { readonly kind: "compiled" }
  /** The library has given up, and the thread is of no more use. */
  | { readonly kind: "broken"; readonly message: string };
