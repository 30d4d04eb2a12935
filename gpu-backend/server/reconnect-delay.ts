import type { Random } from "../../src/base/random.ts";

const FIRST_DELAY_MS = 100;
const DELAY_MS_MAX = 5000;
/** 100 ms doubled six times is past the cap, so a higher power has no use. */
const DOUBLINGS_MAX = 6;

/**
 * Returns how long to wait before attempt `attempt` (1, 2, …) at a lost connection: doubling from
 * 100 ms up to 5 s, of which the upper half is drawn, so that the replicas of a pool that came
 * back do not all dial in at one instant.
 */
export function reconnectDelayMs(attempt: number, random: Random): number {
  const fullMs = Math.min(FIRST_DELAY_MS * 2 ** Math.min(attempt - 1, DOUBLINGS_MAX), DELAY_MS_MAX);
  return fullMs * (0.5 + 0.5 * random());
}
