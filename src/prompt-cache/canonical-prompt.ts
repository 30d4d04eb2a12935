import type { PromptPart } from "../protocol/prompt-parts.ts";
import { encodeBase64Url } from "./base64url.ts";
import type { KeyPrimitives } from "./fields.ts";
import { concatenate } from "./fields.ts";

/**
 * Stands before every part. It never occurs in UTF-8, so parts cannot be confused, and unlike a length
 * it leaves all that comes before the end of a growing part as it is.
 */
const MARK = 0xfe;

const TAG = {
  tools: 1,
  role: 3,
  content: 4,
  name: 5,
  "call-name": 6,
  "call-arguments": 7,
  text: 8,
  tokens: 9,
} as const satisfies Record<PromptPart["kind"], number>;

/**
 * Writes a prompt so that two prompts are the same bytes exactly as far as they begin with the same parts.
 * Nothing is normalised: to a tokenizer, other characters are other tokens.
 */
export function canonicalPrompt(
  parts: readonly PromptPart[],
  { sha256, encodeUtf8 }: Pick<KeyPrimitives, "sha256" | "encodeUtf8">,
): Uint8Array {
  return concatenate(
    ...parts.flatMap(({ kind, pieces }) => {
      const texts = pieces.map((piece) =>
        piece.kind === "text" ? piece.text : encodeBase64Url(sha256(encodeUtf8(piece.text))),
      );
      return [Uint8Array.of(MARK, TAG[kind]), encodeUtf8(texts.join("").toWellFormed())];
    }),
  );
}
