import type { Problem } from "../../src/protocol/errors.ts";

/** A request's failure on its way to the one error handler, which writes it as the envelope. */
export class ProblemError extends Error {
  readonly problem: Problem;
  readonly headers: Readonly<Record<string, string>>;

  constructor(problem: Problem, headers: Readonly<Record<string, string>> = {}) {
    super(problem.message ?? problem.code);
    this.name = "ProblemError";
    this.problem = problem;
    this.headers = headers;
  }
}
