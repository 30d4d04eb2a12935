import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { ConstraintSpec } from "../../../../gpu-backend/engine/generate-request.ts";
import {
  ConstraintCompiler,
  type ConstraintCompilerOptions,
} from "../../../../gpu-backend/engine/structured/constraint-compiler.ts";
import type { TokenConstraint } from "../../../../gpu-backend/engine/token-constraint.ts";
import { seededRandom } from "../../../../src/base/random.ts";
import {
  allowedTokens,
  letsThrough,
  tokenizer,
  vocabulary,
  writeRandomly,
} from "../../../support/grammar-vocabulary.ts";

function aCompiler(options: Partial<ConstraintCompilerOptions> = {}): ConstraintCompiler {
  const compiler = new ConstraintCompiler({
    vocabulary,
    grammarsMax: 2,
    compileMsMax: 60_000,
    ...options,
  });
  onTestFinished(() => compiler.close());
  return compiler;
}

const jsonSchema = (schema: unknown): ConstraintSpec => ({
  kind: "json-schema",
  schema: JSON.stringify(schema),
});
const constant = (value: unknown) => jsonSchema({ const: value });
/** Within all bounds, and as much work as there can be. */
const heavy = (maxLength: number) => jsonSchema({ type: "string", maxLength });

async function open(compiler: ConstraintCompiler, spec: ConstraintSpec): Promise<TokenConstraint> {
  const opened = await compiler.open(spec);
  assert(opened.kind === "opened", JSON.stringify(opened));
  return opened.constraint;
}

/** Lets so much time of a compilation pass, once it has begun, where timers are fake. */
async function letCompile(ms: number): Promise<void> {
  const before = vi.getTimerCount();
  while (vi.getTimerCount() === before) await setImmediate();
  vi.advanceTimersByTime(ms);
}

/** Lets promises that can settle do so. */
async function turns(count = 20): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) await setImmediate();
}

describe("ConstraintCompiler", () => {
  test("an object of JSON mode is an object, whatever tokens are drawn", async () => {
    const compiler = aCompiler();
    const random = seededRandom(7);
    for (let count = 0; count < 10; count += 1) {
      const constraint = await open(compiler, { kind: "json-object" });
      const text = String(writeRandomly(constraint, random));
      constraint.dispose();
      expect(text.startsWith("{")).toBe(true);
      expect(JSON.parse(text)).toBeTypeOf("object");
    }
    expect(compiler.uses).toBe(0);
  });

  test("an enum of one value is forced out byte by byte", async () => {
    const text = "🧑‍🚀 naïve 漢字 🇫🇷 Ωμέγα";
    const constraint = await open(aCompiler(), jsonSchema({ enum: [text] }));
    expect(String(writeRandomly(constraint, seededRandom(1)))).toBe(JSON.stringify(text));
  });

  test("the end is allowed exactly where the text is complete, other special tokens nowhere", async () => {
    const constraint = await open(aCompiler(), constant("ab"));
    const special = tokenizer.encodePieces([0, 2, 3, 4, 6]);
    for (const tokenId of tokenizer.encodeText('"ab"')) {
      const allowed = allowedTokens(constraint);
      expect(allowed.filter((id) => id === 1 || id === 5 || special.includes(id))).toEqual([]);
      constraint.accept(tokenId);
    }
    expect(allowedTokens(constraint)).toEqual([1, 5]);
    constraint.accept(5);
    expect(allowedTokens(constraint)).toEqual([]);
  });

  test("constraints of one grammar go their own ways", async () => {
    const compiler = aCompiler();
    const spec = jsonSchema({ enum: ["left", "right"] });
    const [one, other] = await Promise.all([open(compiler, spec), open(compiler, spec)]);
    expect(letsThrough(one, '"left"')).toBe(true);
    expect(letsThrough(other, '"right"')).toBe(true);
    expect(compiler.grammars).toBe(1);
  });

  test("the thread that asks goes on while a grammar is compiled", async () => {
    const compiler = aCompiler();
    const opened: TokenConstraint[] = [];
    void open(compiler, heavy(40)).then((constraint) => opened.push(constraint));
    let turnsTaken = 0;
    for (; opened.length === 0; turnsTaken += 1) await setImmediate();
    // A compilation on this thread would leave it two or three.
    expect(turnsTaken).toBeGreaterThan(20);
  });

  test("a compiled grammar is at hand in a fraction of the time it took to compile", async () => {
    const compiler = aCompiler();
    const timeOpen = async () => {
      const startedAt = process.hrtime.bigint();
      const constraint = await open(compiler, heavy(60));
      constraint.allowedTokens();
      return Number(process.hrtime.bigint() - startedAt);
    };
    const first = await timeOpen();
    const again = [await timeOpen(), await timeOpen(), await timeOpen()];
    expect(Math.min(...again)).toBeLessThan(first / 5);
  });

  test("of grammars beyond the bound the one unused for longest makes room", async () => {
    const compiler = aCompiler();
    for (const value of ["a", "b", "c", "d"]) {
      const constraint = await open(compiler, constant(value));
      expect(letsThrough(constraint, `"${value}"`)).toBe(true);
      constraint.dispose();
      expect(compiler.grammars).toBeLessThanOrEqual(2);
    }
  });

  test("a grammar waits while all places are in use, and none in use is taken away", async () => {
    const compiler = aCompiler();
    const [a, b] = [await open(compiler, constant("a")), await open(compiler, constant("b"))];
    let isOpen = false;
    const waiting = open(compiler, constant("c"));
    void waiting.then(() => (isOpen = true));
    await turns();
    expect(isOpen).toBe(false);
    expect(letsThrough(a, '"a"')).toBe(true);
    b.dispose();
    expect(letsThrough(await waiting, '"c"')).toBe(true);
    expect(allowedTokens(a)).toEqual([1, 5]);
  });

  test("beyond the queue's bound a new grammar is turned away, a known one is not", async () => {
    const compiler = aCompiler({ grammarsMax: 1, queueMax: 1 });
    const a = await open(compiler, constant("a"));
    const waiting = compiler.open(constant("b"));
    expect(await compiler.open(constant("c"))).toEqual({ kind: "busy" });
    expect((await compiler.open(constant("a"))).kind).toBe("opened");
    expect(compiler.uses).toBe(3);
    expect(letsThrough(a, '"a"')).toBe(true);
    await compiler.close();
    expect(await waiting).toEqual({ kind: "refused", message: "The engine is closing" });
  });

  test("disposing twice gives back once", async () => {
    const compiler = aCompiler();
    const spec = constant("a");
    const [one] = [await open(compiler, spec), await open(compiler, spec)];
    one.dispose();
    one.dispose();
    expect(compiler.uses).toBe(1);
  });

  test("a grammar that takes too long ends alone, and is not tried again for a minute", async () => {
    // Only the heavy one is to take long, however busy the machine is.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const compiler = aCompiler({ compileMsMax: 200 });
    const good = await open(compiler, constant("good"));
    const refused = { kind: "refused", message: "Compiling took longer than 200 ms" };
    const opening = compiler.open(heavy(500));
    const tokens = tokenizer.encodeText('"good"');
    for (const tokenId of tokens.slice(0, 2)) {
      expect(allowedTokens(good)).toContain(tokenId);
      good.accept(tokenId);
    }
    await letCompile(199);
    expect([compiler.grammars, compiler.uses]).toEqual([2, 2]);
    vi.advanceTimersByTime(1);
    expect(await opening).toEqual(refused);
    for (const tokenId of tokens.slice(2)) {
      expect(allowedTokens(good)).toContain(tokenId);
      good.accept(tokenId);
    }
    expect(allowedTokens(good)).toEqual([1, 5]);
    const again = await Promise.race([compiler.open(heavy(500)), setImmediate("compiled anew")]);
    expect(again).toEqual(refused);
    expect([compiler.grammars, compiler.uses]).toEqual([1, 1]);
    expect(letsThrough(await open(compiler, constant("next")), '"next"')).toBe(true);
    vi.advanceTimersByTime(60_000);
    good.dispose();
    const later = compiler.open(heavy(500));
    await letCompile(200);
    expect(await later).toEqual(refused);
  });

  test("a schema that is not supported is refused before any thread is asked", async () => {
    const compiler = aCompiler();
    const opened = await compiler.open(jsonSchema({ not: {} }));
    expect(opened).toEqual({
      kind: "refused",
      message: "The schema keyword 'not' is not supported",
    });
    expect(compiler.grammars).toBe(0);
  });

  test("a grammar that breaks while it is used takes no other with it, and is compiled anew", async () => {
    const compiler = aCompiler();
    const [broken, good] = [
      await open(compiler, constant("a")),
      await open(compiler, constant("b")),
    ];
    // Nothing but a quote was allowed: what follows is a bug, and stands for any in the library.
    broken.accept(6);
    expect(() => broken.allowedTokens()).toThrow("The grammar broke");
    broken.dispose();
    expect(letsThrough(good, '"b"')).toBe(true);
    expect(letsThrough(await open(compiler, constant("a")), '"a"')).toBe(true);
    expect(compiler.uses).toBe(2);
  });

  test("closing ends what is open and what waits", async () => {
    const compiler = aCompiler({ grammarsMax: 1 });
    const constraint = await open(compiler, constant("a"));
    const waiting = compiler.open(constant("b"));
    await compiler.close();
    expect(() => constraint.allowedTokens()).toThrow("The grammar broke");
    expect((await waiting).kind).toBe("refused");
    expect((await compiler.open(constant("c"))).kind).toBe("busy");
  });
});
