import { describe, expect, test } from "vitest";
import type { GenerateRequest } from "../../../gpu-backend/engine/generate-request.ts";
import type { TokenConstraint } from "../../../gpu-backend/engine/token-constraint.ts";
import { aGenerateRequest } from "../../support/engine-builders.ts";
import { MemoryEngine } from "../../support/memory-engine.ts";
import { SumConstraint, type SumConstraintOptions } from "../../support/sum-constraint.ts";

const STOP = 0;
const aRequest = (overrides: Partial<GenerateRequest> = {}) =>
  aGenerateRequest({
    promptTokens: [1, 2, 3, 4, 5],
    outputTokensMax: 20,
    stopTokenIds: [STOP],
    ...overrides,
  });

const aConstraint = (overrides: Partial<SumConstraintOptions> = {}) =>
  new SumConstraint({
    vocabularyTokens: 12,
    stopTokenIds: [STOP],
    completeEvery: 3,
    ...overrides,
  });

/** Checks tokens by a fresh constraint, which throws at one that is not allowed. */
function checkTokens(tokens: readonly number[], constraint: SumConstraint): void {
  for (const token of tokens.filter((id) => id !== STOP)) constraint.accept(token);
}

describe("a constrained output", () => {
  test("goes on only with what is allowed", () => {
    const served = new MemoryEngine();
    served.submit(aRequest(), aConstraint());
    served.runToEnd();
    expect(served.tokensOf("a").length).toBeGreaterThan(1);
    checkTokens(served.tokensOf("a"), aConstraint());
  });

  test("ends where nothing but its end is left, though it be shorter than its minimum", () => {
    const served = new MemoryEngine();
    served.submit(aRequest({ outputTokensMin: 10 }), aConstraint({ tokensMax: 5 }));
    served.runToEnd();
    expect(served.events.at(-1)).toMatchObject({ reason: "stop", outputTokens: 6 });
    expect(served.tokensOf("a").at(-1)).toBe(STOP);
  });

  test("that can neither go on nor end fails alone and says why", () => {
    const served = new MemoryEngine();
    served.submit(aRequest({ id: "dead end" }), aConstraint({ tokensMax: 4, completeEvery: 9 }));
    served.submit(aRequest({ id: "other", outputTokensMax: 9 }));
    served.runToEnd();
    expect(served.tokensOf("dead end")).toHaveLength(4);
    expect(served.heardBy("dead end").at(-1)).toEqual({
      kind: "failed",
      id: "dead end",
      message: "No token is allowed to come next",
    });
    expect(served.heardBy("other").at(-1)).toMatchObject({ kind: "finished" });
  });

  test("whose constraint breaks when it takes a token fails, and the token is told before", () => {
    const constraint: TokenConstraint = {
      allowedTokens: () => Int32Array.of(-1),
      accept: () => {
        throw new Error("the matcher is gone");
      },
      acceptOnTrial: () => {},
      takeBack: () => {},
      dispose: () => {},
    };
    const served = new MemoryEngine();
    served.submit(aRequest(), constraint);
    served.runToEnd();
    expect(served.heardBy("a").map(({ kind }) => kind)).toEqual(["token", "failed"]);
    expect(served.engine.load().usedBlocks).toBe(0);
  });

  test("takes each token once, though it is preempted and its steps are tried again", () => {
    const served = new MemoryEngine({ blockCount: 8 });
    const constraint = aConstraint({ completeEvery: 1000 });
    served.submit(aRequest({ id: "rival", stopTokenIds: [], outputTokensMax: 15 }));
    served.submit(aRequest(), constraint);
    for (let round = 0; round < 3; round++) {
      const { batch } = served.engine.plan(0);
      if (batch !== undefined) served.engine.rollback(batch);
      served.step();
    }
    served.runToEnd();
    expect(served.engine.counters.preemptions).toBeGreaterThan(0);
    expect(served.tokensOf("a")).toHaveLength(20);
    checkTokens(served.tokensOf("a"), aConstraint({ completeEvery: 1000 }));
  });
});

/** Serves a constrained request in some way; returns how often its constraint was disposed of. */
function disposalsAfter(
  serve: (served: MemoryEngine, constraint: SumConstraint) => void,
  options: ConstructorParameters<typeof MemoryEngine>[0] = {},
): number {
  const constraint = aConstraint({ completeEvery: 1000 });
  const served = new MemoryEngine(options);
  serve(served, constraint);
  expect(served.engine.load().runningRequests + served.engine.load().queuedRequests).toBe(0);
  return constraint.disposals;
}

describe("a constraint is disposed of once", () => {
  test("when its request has come to its end", () => {
    const disposals = disposalsAfter((served, constraint) => {
      served.submit(aRequest({ outputTokensMax: 3 }), constraint);
      served.runToEnd();
    });
    expect(disposals).toBe(1);
  });

  test("when its request is refused", () => {
    const disposals = disposalsAfter((served, constraint) => {
      served.engine.drain();
      served.submit(aRequest(), constraint);
    });
    expect(disposals).toBe(1);
  });

  test("when its request waited until it was too late", () => {
    const disposals = disposalsAfter((served, constraint) => {
      served.submit(aRequest({ firstTokenDeadlineAtMs: 5 }), constraint);
      served.engine.plan(5);
    });
    expect(disposals).toBe(1);
  });

  test("when its request is cancelled: waiting, running, and in the middle of a step", () => {
    const cancels: ((served: MemoryEngine) => void)[] = [
      (served) => served.cancel("a"),
      (served) => {
        served.step();
        served.cancel("a");
      },
      (served) => {
        const { batch } = served.engine.plan(0);
        served.cancel("a");
        if (batch !== undefined) served.engine.rollback(batch);
      },
    ];
    for (const cancel of cancels) {
      const disposals = disposalsAfter((served, constraint) => {
        served.submit(aRequest(), constraint);
        cancel(served);
        served.cancel("a");
      });
      expect(disposals).toBe(1);
    }
  });

  test("when its request fails", () => {
    const disposals = disposalsAfter((served, constraint) => {
      served.submit(aRequest(), constraint);
      const { batch } = served.engine.plan(0);
      if (batch === undefined) throw new Error("A request is planned");
      served.engine.commit(batch, [{ kind: "failed", message: "Poisoned" }]);
    });
    expect(disposals).toBe(1);
  });
});
