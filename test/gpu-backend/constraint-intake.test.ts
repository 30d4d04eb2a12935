import { expect, test } from "vitest";
import { ConstraintIntake } from "../../gpu-backend/constraint-intake.ts";
import type { OpenedConstraint } from "../../gpu-backend/engine/structured/constraint-compiler.ts";
import { aGenerateRequest } from "../support/engine-builders.ts";
import { SumConstraint } from "../support/sum-constraint.ts";

const spec = { kind: "json-object" } as const;
const aConstraint = () =>
  new SumConstraint({ vocabularyTokens: 8, stopTokenIds: [1], completeEvery: 1 });

/** An intake before a loop that only notes what it is told, and a compiler that a test answers for. */
function anIntake() {
  const told: unknown[][] = [];
  const answers: ((opened: OpenedConstraint) => void)[] = [];
  const intake = new ConstraintIntake(
    {
      submit: (request, constraint) => told.push(["submit", request, constraint]),
      turnAway: (ending) => told.push(["turn away", ending]),
      cancel: (id) => told.push(["cancel", id]),
    },
    { open: () => new Promise((resolve) => answers.push(resolve)) },
    [1, 5],
  );
  const answer = async (opened: OpenedConstraint): Promise<void> => {
    answers.shift()?.(opened);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { intake, told, answer };
}

test("a request without a constraint overtakes one that waits for its own", async () => {
  const { intake, told, answer } = anIntake();
  intake.submit(aGenerateRequest({ id: "a", constraint: spec, stopTokenIds: [5, 7] }));
  intake.submit(aGenerateRequest({ id: "b" }));
  expect(told).toEqual([["submit", aGenerateRequest({ id: "b" }), undefined]]);
  expect(intake.openingRequests).toBe(1);
  const constraint = aConstraint();
  await answer({ kind: "opened", constraint });
  // The model's end tokens come to its own: a complete text has to end even if they were left out.
  const endable = aGenerateRequest({ id: "a", constraint: spec, stopTokenIds: [5, 7, 1] });
  expect(told[1]).toEqual(["submit", endable, constraint]);
  expect(intake.openingRequests).toBe(0);
});

test("a request that is cancelled while it waits is cancelled when it stops waiting", async () => {
  const { intake, told, answer } = anIntake();
  intake.submit(aGenerateRequest({ id: "a", constraint: spec }));
  intake.cancel("a");
  intake.cancel("b");
  expect(told).toEqual([["cancel", "b"]]);
  await answer({ kind: "opened", constraint: aConstraint() });
  expect(told.slice(1).map(([what]) => what)).toEqual(["submit", "cancel"]);
});

test("a constraint that cannot be followed refuses its request with the reason", async () => {
  const { intake, told, answer } = anIntake();
  for (const id of ["a", "b", "c"]) intake.submit(aGenerateRequest({ id, constraint: spec }));
  await answer({ kind: "refused", message: "Compiling took longer than 5000 ms" });
  await answer({ kind: "busy" });
  expect(told).toEqual([
    [
      "turn away",
      {
        kind: "refused",
        id: "a",
        reason: "constraint-refused",
        message: "Compiling took longer than 5000 ms",
      },
    ],
    [
      "turn away",
      {
        kind: "refused",
        id: "b",
        reason: "queue-full",
        message: "Too many different grammars are in use",
      },
    ],
  ]);
  expect(intake.openingRequests).toBe(1);
});

test("a fault of the compiler fails the request and nothing else", async () => {
  const told: unknown[] = [];
  const intake = new ConstraintIntake(
    { submit: () => {}, turnAway: (ending) => told.push(ending), cancel: () => {} },
    { open: () => Promise.reject(new Error("a bug")) },
    [],
  );
  intake.submit(aGenerateRequest({ id: "a", constraint: spec }));
  await new Promise((resolve) => setImmediate(resolve));
  expect(told).toEqual([{ kind: "failed", id: "a", message: "a bug" }]);
});
