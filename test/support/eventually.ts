import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 20;

/**
 * Asks until the answer is yes, for tests of programs that run beside this one. Throws after
 * `withinMs`, naming what was waited for; a question that throws counts as a no.
 */
export async function eventually(
  what: string,
  ask: () => boolean | Promise<boolean>,
  withinMs = 15_000,
): Promise<void> {
  const startedAtMs = performance.now();
  let lastError: unknown;
  while (performance.now() - startedAtMs < withinMs) {
    try {
      if (await ask()) return;
    } catch (error) {
      lastError = error;
    }
    await sleep(POLL_MS);
  }
  throw new Error(`Not within ${withinMs} ms: ${what}`, { cause: lastError });
}
