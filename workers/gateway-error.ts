import type { Problem } from "../src/protocol/errors.ts";
import { ERRORS } from "../src/protocol/errors.ts";

/** A failure that ends a request with the table's status and envelope. Thrown by bodies only. */
export class GatewayError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.message ?? ERRORS[problem.code].message);
    this.name = "GatewayError";
    this.problem = problem;
  }
}

/** A key or a token that was given to somebody and is not valid now: whoever has it does not guess. */
export class StaleKeyError extends GatewayError {
  constructor(message?: string) {
    super({ code: "invalid_api_key", ...(message !== undefined && { message }) });
    this.name = "StaleKeyError";
  }
}
