import { reset } from "cloudflare:test";
import { afterAll, beforeAll } from "vitest";
import { requestCounts } from "../../../workers/request-counts.ts";

const QUIET_WITHIN_MS = 5_000;
const LOOK_MS = 20;

// Files share a runtime, which is as in production, but each begins with nothing stored.
beforeAll(reset);

// The last request of a file sends its counts a second later. If the runner waited for that it would be
// woken inside that request, and what it then has to say can be lost with it: the run would never end.
afterAll(async () => {
  for (
    let waitedMs = 0;
    !requestCounts.isQuiet && waitedMs < QUIET_WITHIN_MS;
    waitedMs += LOOK_MS
  ) {
    // oxlint-disable-next-line no-await-in-loop
    await scheduler.wait(LOOK_MS);
  }
});
