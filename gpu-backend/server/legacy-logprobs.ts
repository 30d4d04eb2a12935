import type { CompletionLogprobs } from "../../src/protocol/completion-response.ts";
import type { TokenLogprob } from "../engine/generate-request.ts";
import { Detokenizer } from "../engine/tokenizer/detokenizer.ts";
import type { ServedModel } from "./app-context.ts";
import { readableLogprob } from "./chat-logprobs.ts";

/** A token of a prompt or an answer; without a value where nothing stands before it. */
export interface ListedToken {
  readonly tokenId: number;
  readonly logprob: TokenLogprob | undefined;
}

/** Writes one choice's log probabilities in the older shape, piece by piece. */
export class LegacyLogprobs {
  readonly #model: Pick<ServedModel, "tokenBytes" | "tokenLabels">;
  readonly #detokenizer: Detokenizer;
  #characters = 0;

  constructor(model: Pick<ServedModel, "tokenBytes" | "tokenLabels">) {
    this.#model = model;
    this.#detokenizer = new Detokenizer(model.tokenBytes);
  }

  /** Returns the lists of the next tokens; their offsets go on where the last piece ended. */
  push(listed: readonly ListedToken[]): CompletionLogprobs {
    const labelOf = (tokenId: number): string => this.#model.tokenLabels.of(tokenId).token;
    return {
      tokens: listed.map(({ tokenId }) => labelOf(tokenId)),
      token_logprobs: listed.map(({ logprob }) =>
        logprob === undefined ? null : readableLogprob(logprob.logprob),
      ),
      top_logprobs: listed.map(({ logprob }) =>
        logprob === undefined
          ? null
          : Object.fromEntries(
              // The chosen token is always among them, as the older API has it.
              [...logprob.top, logprob].map((entry) => [
                labelOf(entry.tokenId),
                readableLogprob(entry.logprob),
              ]),
            ),
      ),
      text_offset: listed.map(({ tokenId }) => {
        const offset = this.#characters;
        this.#characters += this.#detokenizer.push(tokenId).length;
        return offset;
      }),
    };
  }
}
