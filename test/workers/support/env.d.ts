import type * as edge from "../../../workers/edge.ts";
import type { Env as WorkerEnv } from "../../../workers/env.ts";

/** Types of `env` and `exports` of `cloudflare:workers`, as the Worker under test has them. */
declare global {
  namespace Cloudflare {
    interface Env extends WorkerEnv {}

    interface GlobalProps {
      mainModule: typeof edge;
    }
  }
}
