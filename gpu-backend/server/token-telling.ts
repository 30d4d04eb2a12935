import type { AnswerProgress, AnswerStart } from "../../src/protocol/continuation.ts";
import { PROGRESS_MEMBER } from "../../src/protocol/continuation.ts";

/**
 * Says in the chunks of a stream which tokens they are from, for a gateway that may have to go on with the
 * answer elsewhere. The chunks of one part say it together, in the last of them: whoever has that one has all
 * that is known of those tokens, and nothing else.
 */
export class TokenTelling {
  #start: (() => AnswerStart) | undefined;
  #untold: number[] = [];

  /** `start` is asked once, when the first chunk is written; absent where it was told before. */
  constructor(start?: () => AnswerStart) {
    this.#start = start;
  }

  /**
   * Adds to a part's chunks its tokens, and those of parts before that had no chunk; nothing where the part
   * is only complete with the next one.
   */
  tell(chunks: readonly object[], tokenIds: readonly number[] | undefined): readonly object[] {
    if (tokenIds === undefined) return chunks;
    this.#untold.push(...tokenIds);
    const last = chunks.at(-1);
    if (last === undefined) return chunks;
    const progress: AnswerProgress = {
      token_ids: this.#untold,
      ...(this.#start !== undefined && { start: this.#start() }),
    };
    this.#untold = [];
    this.#start = undefined;
    return [...chunks.slice(0, -1), { ...last, [PROGRESS_MEMBER]: progress }];
  }
}
