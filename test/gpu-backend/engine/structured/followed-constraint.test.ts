import assert from "node:assert/strict";
import { expect, onTestFinished, test } from "vitest";
import { ConstraintCompiler } from "../../../../gpu-backend/engine/structured/constraint-compiler.ts";
import type { TokenConstraint } from "../../../../gpu-backend/engine/token-constraint.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import { allowedTokens, vocabulary } from "../../../support/grammar-vocabulary.ts";

const SCHEMA = {
  type: "object",
  properties: {
    name: { enum: ["Lily", "Tom", "Lilith"] },
    ages: { type: "array", items: { type: "integer" }, minItems: 2, maxItems: 4 },
  },
  required: ["name", "ages"],
};
const END_TOKENS = [5, 1];
const TEXTS = 30;

async function openTwo(
  compiler: ConstraintCompiler,
): Promise<readonly [TokenConstraint, TokenConstraint]> {
  const open = async () => {
    const opened = await compiler.open({ kind: "json-schema", schema: JSON.stringify(SCHEMA) });
    assert(opened.kind === "opened", JSON.stringify(opened));
    return opened.constraint;
  };
  return [await open(), await open()];
}

const wordsOf = (allowed: readonly number[]) => allowed.filter((id) => !END_TOKENS.includes(id));

test("a constraint allows what it would have had nothing been on trial, wherever that led", async () => {
  const random = seededRandom(4);
  const pick = (tokenIds: readonly number[]) => tokenIds[Math.floor(random() * tokenIds.length)];
  const compiler = new ConstraintCompiler({ vocabulary, compileMsMax: 60_000 });
  onTestFinished(() => compiler.close());
  const happened = { tried: 0, kept: 0, other: 0, deep: 0 };
  for (let text = 0; text < TEXTS; text += 1) {
    const [tried, plain] = await openTwo(compiler);
    for (let step = 0; step < 40; step += 1) {
      const allowed = allowedTokens(plain);
      expect(allowedTokens(tried)).toEqual(allowed);
      const trials: number[] = [];
      for (let depth = Math.floor(random() * 5); depth > 0; depth -= 1) {
        const token = pick(wordsOf(allowedTokens(tried)));
        if (token === undefined) break;
        tried.acceptOnTrial(token);
        trials.push(token);
      }
      happened.tried += trials.length;
      if (trials.length > 2) happened.deep += 1;
      // A step that failed has nothing accepted: the next one tries again.
      tried.takeBack();
      expect(random() < 0.8 ? allowed : allowedTokens(tried)).toEqual(allowed);
      const kept = Math.floor(random() * (trials.length + 1));
      for (const token of trials.slice(0, kept)) {
        happened.kept += 1;
        plain.accept(token);
        tried.accept(token);
        expect(allowedTokens(tried)).toEqual(allowedTokens(plain));
      }
      const next = pick(wordsOf(allowedTokens(plain)));
      if (next === undefined) break;
      if (next !== trials[kept]) happened.other += 1;
      plain.accept(next);
      tried.accept(next);
    }
    plain.dispose();
    tried.dispose();
  }
  expect(Math.min(...Object.values(happened))).toBeGreaterThan(30);
}, 120_000);
