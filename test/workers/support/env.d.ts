import type * as edge from "../../../workers/edge.ts";
import type { Env as WorkerEnv } from "../../../workers/env.ts";
import type { TenantUsageLine } from "../../../workers/usage-sinks.ts";

/** Types of `env` and `exports` of `cloudflare:workers`, as the Worker under test has them. */
declare global {
  namespace Cloudflare {
    interface Env extends WorkerEnv {
      // Optional, or the Worker's own objects would not be those of this environment.
      readonly TEST_QUEUE?: Queue<TenantUsageLine>;
      readonly TEST_DATABASE?: D1Database;
    }

    interface GlobalProps {
      mainModule: typeof edge;
    }
  }
}
