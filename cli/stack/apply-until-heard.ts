import { setTimeout as sleep } from "node:timers/promises";
import type { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import type { AdminAccess } from "../admin-client.ts";
import { applyConfiguration, NoAnswer } from "../admin-client.ts";
import { unlessAborted } from "../unless-aborted.ts";

/** Far more than a busy machine takes for a small file, and what each key adds. */
const HEARD_WITHIN_MS = 15_000;
const KEY_MS = 1;
const PAUSE_MS = 50;

/**
 * Makes a configuration live, and asks again where no answer comes: a development server that has just begun
 * to answer may lose a request, and to apply the same twice does no harm. Throws as `applyConfiguration` does
 * otherwise, or the signal's reason.
 */
export async function applyUntilHeard(
  admin: AdminAccess,
  configuration: LiveConfiguration,
  signal: AbortSignal,
  heardWithinMs = HEARD_WITHIN_MS,
): Promise<void> {
  const withinMs = heardWithinMs + KEY_MS * configuration.keys.length;
  for (;;) {
    signal.throwIfAborted();
    try {
      // oxlint-disable-next-line no-await-in-loop -- one try after the other
      await unlessAborted(applyConfiguration(admin, configuration, { withinMs }), signal);
      return;
    } catch (error) {
      if (!(error instanceof NoAnswer)) throw error;
    }
    // oxlint-disable-next-line no-await-in-loop
    await sleep(PAUSE_MS);
  }
}
