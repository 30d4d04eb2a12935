import { describe, expect, test } from "vitest";
import {
  aGenerateRequest,
  anEngine,
  runStep,
  runToEnd,
  tokenRange,
} from "../../support/engine-builders.ts";

/** Eight tokens of prompt, and five of six that another engine has made. */
const GOES_ON = aGenerateRequest({ emittedTokens: tokenRange(5), outputTokensMax: 6 });

describe("a request whose output another engine began", () => {
  test("is prefilled whole, counts what is there as output, and tells what is new", () => {
    const engine = anEngine();
    expect(engine.submit(GOES_ON, 0)).toEqual([]);
    const { batch, events } = runStep(engine);
    const [row] = batch?.rows ?? [];
    expect([row?.tokens.length, row?.outputIndex]).toEqual([13, 5]);
    expect(events).toEqual([
      { kind: "token", id: "a", tokenId: 7 },
      {
        kind: "finished",
        id: "a",
        reason: "length",
        promptTokens: 8,
        cachedTokens: 0,
        outputTokens: 6,
      },
    ]);
  });

  test("hits what was computed of prompt and output here before", () => {
    const engine = anEngine({ blockTokens: 4 });
    engine.submit(GOES_ON, 0);
    runToEnd(engine);
    engine.submit({ ...GOES_ON, id: "b" }, 0);
    expect(runStep(engine).tokensById).toEqual({ b: 1 });
  });

  test("is refused where prompt, output and one more token do not fit", () => {
    const engine = anEngine({ contextTokens: 16 });
    const emittedTokens = tokenRange(8);
    const events = engine.submit({ ...GOES_ON, emittedTokens, outputTokensMax: 20 }, 0);
    expect(events).toEqual([{ kind: "refused", id: "a", reason: "prompt-too-long" }]);
    const fits = { ...GOES_ON, emittedTokens: tokenRange(7), outputTokensMax: 20 };
    engine.submit(fits, 0);
    const events2 = runToEnd(engine).flatMap((step) => step.events);
    expect(events2.at(-1)).toMatchObject({ kind: "finished", reason: "length", outputTokens: 8 });
  });

  test("has a token left, and has looked at its prompt before", () => {
    const engine = anEngine();
    const full = { ...GOES_ON, outputTokensMax: 5 };
    expect(() => engine.submit(full, 0)).toThrow(/has a token left/);
    const looking = { ...GOES_ON, promptLogprobsTop: 1 };
    expect(() => engine.submit(looking, 0)).toThrow(/looked at its prompt before/);
  });
});
