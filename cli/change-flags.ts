import * as z from "zod";
import { CommandFailure } from "./command.ts";
import { FLAG_HELP, wholeNumber } from "./flags.ts";

const VERSION_MAX = 999_999_999;
const REASON_CHARACTERS_MAX = 500;

/** The number of a version as a word of a command line. */
export const versionNumber = wholeNumber(1, VERSION_MAX);

export const expectedVersionFlag = wholeNumber(0, VERSION_MAX).optional().register(FLAG_HELP, {
  valueName: "N",
  meaning: "Refuse unless version N is live now (0: none is)",
});

export const reasonFlag = z
  .string()
  .max(REASON_CHARACTERS_MAX, `Expected at most ${REASON_CHARACTERS_MAX} characters`)
  .optional()
  .register(FLAG_HELP, { valueName: "TEXT", meaning: "Why, for the history" });

/**
 * Waits for an answer of the admin API; a refusal of it is told with the flags' names in the place of those that
 * the API has for the same.
 */
export async function inFlags<Answer>(
  asked: Promise<Answer>,
  fields: Readonly<Record<string, string>>,
): Promise<Answer> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    let { message } = error;
    for (const [flag, field] of Object.entries(fields)) {
      message = message.replaceAll(new RegExp(`'${field}(\\[\\d+\\])?'`, "g"), `--${flag}`);
    }
    throw new CommandFailure(message);
  }
}
