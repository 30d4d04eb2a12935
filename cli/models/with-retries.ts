import { setTimeout } from "node:timers/promises";
import { CommandFailure } from "../command.ts";
import { causeOf } from "./hub-client.ts";

const ATTEMPTS_MAX = 6;

/**
 * Tries something that a network may break, with pauses that double from `firstDelayMs` on. A `CommandFailure` is final; `hasGoneOn`
 * tells whether the last attempt got anywhere, which makes it the first one again.
 */
export async function withRetries<Result>(
  what: string,
  firstDelayMs: number,
  attempt: () => Promise<Result>,
  hasGoneOn: () => boolean = () => false,
): Promise<Result> {
  for (let failures = 0; ;) {
    try {
      return await attempt();
    } catch (error) {
      if (error instanceof CommandFailure) throw error;
      failures = hasGoneOn() ? 1 : failures + 1;
      if (failures === ATTEMPTS_MAX) {
        throw new CommandFailure(
          `Cannot get ${what} after ${failures} attempts: ${causeOf(error)}`,
        );
      }
      await setTimeout(firstDelayMs * 2 ** (failures - 1));
    }
  }
}
