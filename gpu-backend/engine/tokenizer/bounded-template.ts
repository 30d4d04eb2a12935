import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { messageOf } from "../message-of.ts";
import { DataWeights } from "./data-weights.ts";

type Evaluation = Parameters<Interpreter["evaluate"]>;
type Evaluated = ReturnType<Interpreter["evaluate"]>;

/** What one rendering may take. */
export interface RenderBudget {
  /** Expressions and statements evaluated. */
  readonly steps: number;
  /** Characters of all texts that are made on the way. */
  readonly characters: number;
}

/** The longest templates that models come with have 30,000. */
const TEMPLATE_CHARACTERS_MAX = 1 << 20;
/** Entries of a list; a conversation has fewer messages. */
const ITEMS_MAX = 100_000;
/** Numbers in templates count messages and spaces. */
const NUMBER_MAX = 1 << 24;

/**
 * A Jinja template that comes with a model, from a stranger: it loops, grows and recurses only so far.
 * What goes beyond throws an error that says which limit it was.
 */
export class BoundedTemplate {
  readonly parsed: ReturnType<typeof parse>;

  /** Throws if the text is no template. */
  constructor(text: string) {
    if (text.length > TEMPLATE_CHARACTERS_MAX) {
      throw new Error(
        `It has ${text.length} characters, expected at most ${TEMPLATE_CHARACTERS_MAX}`,
      );
    }
    this.parsed = shallow(() => parse(tokenize(text, { lstrip_blocks: true, trim_blocks: true })));
  }

  /** Renders with these variables; throws what the template raises, and at a limit. */
  render(variables: Readonly<Record<string, unknown>>, budget: RenderBudget): string {
    const environment = new Environment();
    for (const [name, value] of Object.entries({ ...GLOBALS, ...variables })) {
      environment.set(name, value);
    }
    const interpreter = new BoundedInterpreter(environment, budget);
    const { value } = shallow(() => interpreter.run(this.parsed));
    if (typeof value === "string") return value;
    throw new Error("Expected the template to make text");
  }
}

/**
 * What Transformers gives every template, but for the date: a prompt is what its messages say, here and
 * on another replica, today and tomorrow. Templates ask whether there is one, and have another for then.
 */
const GLOBALS: Readonly<Record<string, unknown>> = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  raise_exception: (message: unknown) => {
    throw new Error(String(message));
  },
  range: rangeOf,
};

/** So many characters of a list or an object cost as much to go through as one step. */
const CHARACTERS_PER_STEP = 1024;

class BoundedInterpreter extends Interpreter {
  #steps: number;
  #characters: number;
  /** The expressions that loops go through, as they are met. */
  readonly #iterables = new Set<unknown>();
  readonly #weights: DataWeights;

  constructor(environment: Environment, budget: RenderBudget) {
    super(environment);
    this.#steps = budget.steps;
    this.#characters = budget.characters;
    this.#weights = new DataWeights(budget.characters);
  }

  override evaluate(...[statement, environment]: Evaluation): Evaluated {
    this.#takeSteps(1);
    if (statement?.type === "For") this.#iterables.add(iterableOf(statement));
    const evaluated = super.evaluate(statement, environment);
    const { value } = evaluated;
    if (typeof value === "string") {
      this.#characters -= value.length;
      if (this.#characters < 0) throw new Error("It makes more text than any conversation needs");
    } else if (typeof value === "number" && Math.abs(value) > NUMBER_MAX) {
      throw new Error(`It counts beyond ${NUMBER_MAX}`);
    } else if (Array.isArray(value) || value instanceof Map) {
      this.#takeData(evaluated, this.#iterables.has(statement));
    }
    return evaluated;
  }

  /** A list is gone through by whatever takes it: entry by entry by a loop, whose body may be empty. */
  #takeData(data: Evaluated, isIterated: boolean): void {
    const { value } = data;
    const items = Array.isArray(value) ? value.length : 0;
    if (items > ITEMS_MAX) {
      throw new Error(`It makes a list of ${items}, expected at most ${ITEMS_MAX} entries`);
    }
    const weight = this.#weights.of(data);
    this.#takeSteps(weight / CHARACTERS_PER_STEP + (isIterated ? items : 0));
  }

  #takeSteps(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw new Error("It takes more steps than any conversation needs");
  }
}

/** What a loop goes through, before it picks any. */
function iterableOf(loop: object): unknown {
  const iterable: unknown = Reflect.get(loop, "iterable");
  const isSelection =
    typeof iterable === "object" &&
    iterable !== null &&
    Reflect.get(iterable, "type") === "SelectExpression";
  return isSelection ? Reflect.get(iterable, "lhs") : iterable;
}

/** Python's `range`, of at most so many numbers. */
function rangeOf(...bounds: unknown[]): number[] {
  const numbers = bounds.filter((bound) => typeof bound === "number");
  const [first = 0, second, step = 1] = numbers;
  const [start, end] = second === undefined ? [0, first] : [first, second];
  if (step === 0) throw new Error("range() has a step of 0");
  const count = Math.max(0, Math.ceil((end - start) / step));
  if (!(count <= ITEMS_MAX)) {
    throw new Error(`range() has ${count} numbers, expected at most ${ITEMS_MAX}`);
  }
  return Array.from({ length: count }, (_, index) => start + index * step);
}

/** A nesting that uses up the stack, or a text that no string holds, is the template's fault. */
function shallow<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    throw new Error(`It is nested too deeply or makes too much (${messageOf(cause)})`, { cause });
  }
}
