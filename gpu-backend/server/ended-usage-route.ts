import type { Handler } from "hono";
import * as z from "zod";
import type { EngineUsageAnswer } from "../../src/protocol/engine-usage.ts";
import { EngineUsageRequest } from "../../src/protocol/engine-usage.ts";
import type { AppContext, EngineEnvironment } from "./app-context.ts";
import { readRequest } from "./read-request.ts";

const SCHEMAS = { request: EngineUsageRequest, inert: z.object({}) };

/** Answers what requests have cost that have ended; of those that run or are forgotten it says nothing. */
export function tellEndedUsage(context: AppContext): Handler<EngineEnvironment> {
  return async (c) => {
    return readRequest(context, c, SCHEMAS, async ({ request_ids: requestIds }) => {
      const answer: EngineUsageAnswer = { usage: context.endedRequests.of(requestIds) };
      return c.json(answer);
    });
  };
}
