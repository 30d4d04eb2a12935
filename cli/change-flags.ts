import * as z from "zod";
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
