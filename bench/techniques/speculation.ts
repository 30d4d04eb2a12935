import type { DraftModel } from "../../gpu-backend/draft-model.ts";
import type { EngineOptions } from "../../gpu-backend/engine/engine-options.ts";
import { loadTokenizer } from "../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { StepMeter } from "../../gpu-backend/engine/step-meter.ts";
import { BUNDLED_MODEL } from "../../gpu-backend/settings.ts";
import { aRequest, BenchEngine, cpuMsOf, type StepRecord, tokensIn } from "./bench-engine.ts";
import { ratioOf, show } from "../support/ratio.ts";
import type { Conditions, Row, Section } from "./section.ts";
import { takeTurns } from "./take-turns.ts";

/** Batch sizes, and how many times as often each is measured: a run of few sequences is short, and varies more. */
const BATCHES = [
  { batch: 1, timesAsOften: 6 },
  { batch: 4, timesAsOften: 4 },
  { batch: 16, timesAsOften: 2 },
];
/** Before the first repetition that counts: K is chosen by what was learned. */
const LEARNING_REPEATS = 2;

const NUMBERS = Array.from({ length: 30 }, (_, index) => index + 1).join(", ");
const STORY =
  "One snowy day, a little fox named Lily went to the lake. Lily had a round scarf and loved it very much.";

/** Texts that say again what is in the prompt, and that this model is able to say. */
const COPIES = [
  `<|user|>Count from 1 to 30.<|end|><|assistant|>${NUMBERS}<|end|><|user|>Count from 1 to 30.<|end|>`,
  `<|user|>Repeat this: ${STORY}<|end|>`,
];
const HEROES = ["fox named Lily", "cat named Tom", "bear named Ben", "dog named Sam"];

const TEXTS: Readonly<Record<string, (index: number) => string>> = {
  "copy-heavy": (index) => COPIES[index % COPIES.length] ?? "",
  free: (index) => `<|user|>Tell me a story about a ${HEROES[index % HEROES.length]}.<|end|>`,
};

/** One way to speculate; each learns for itself. */
interface Way {
  readonly name: string;
  readonly options: Partial<EngineOptions>;
  readonly draftModel?: DraftModel;
  readonly learns: boolean;
}

function fixed(draftTokensMax: number): Way {
  return {
    name: `K = ${draftTokensMax}`,
    options: { speculation: { looksUp: true, draftTokensMax } },
    learns: false,
  };
}

function waysOf(draftModel: DraftModel | undefined): Way[] {
  const auto = { looksUp: true, draftTokensMax: 8 };
  return [
    { name: "off", options: {}, learns: true },
    { name: "off again", options: {}, learns: true },
    fixed(1),
    fixed(3),
    fixed(7),
    { name: "auto, lookup", options: { speculation: auto }, learns: true },
    ...(draftModel === undefined
      ? []
      : [
          {
            name: "auto, lookup and draft model",
            options: { speculation: { ...auto, drafts: true } },
            draftModel,
            learns: true,
          },
        ]),
  ];
}

/** Tokens a second of decoding, prefill left out. */
function decodeRate(steps: readonly StepRecord[]): number {
  const decodes = steps.slice(steps.findIndex(({ events }) => events.length > 0) + 1);
  return (1000 * tokensIn(decodes)) / cpuMsOf(decodes);
}

export function speculationSection(draftModel: DraftModel | undefined): Section {
  return {
    title: "Speculation",
    published:
      "vLLM 2024: up to 1.5× with a draft model, up to 2.8× with n-grams on CNN/DailyMail, both at one request a second; at a high rate 1.4× and 1.8× slower. 70B on H100s, where a step of one token costs what one of five does",
    how: "K fixed and chosen, by batch, greedy, tokens a second of decoding against off; accepted of verified. Off is measured twice: what the two differ by is chance",
    why: "Verifying is cheap only where a step of one token leaves the processor idle. In f32 natively a step has 0.8 ms of calls, so that K pays; in int8 a token costs half of a lone step, and in a batch of 16 all of its share",
    predicts: false,
    measure: (conditions) => measure(conditions, waysOf(draftModel)),
  };
}

async function measure(conditions: Conditions, ways: readonly Way[]): Promise<Row[]> {
  const { machine, repeats, random } = conditions;
  const tokenizer = await loadTokenizer(BUNDLED_MODEL);
  const encode = (text: string) =>
    tokenizer.encodePieces(tokenizer.specialTokens.split(`<|bos|>${text}<|assistant|>`));
  const rows: Row[] = [];
  const meters = new Map(ways.map((way) => [way, new StepMeter(machine.speed)]));
  for (const [name, textOf] of Object.entries(TEXTS)) {
    for (const { batch, timesAsOften } of BATCHES) {
      const rounds = { repeats: repeats * timesAsOften, random, warmUps: LEARNING_REPEATS };
      const samplesOf = await takeTurns(ways, rounds, async (way: Way) => {
        const meter = meters.get(way);
        const run = new BenchEngine(machine, {
          ...way.options,
          ...(way.draftModel !== undefined && { draftModel: way.draftModel }),
          ...(meter !== undefined && { meter }),
          isForecast: way.learns,
        });
        for (let index = 0; index < batch; index += 1) {
          const promptTokens = encode(textOf(index));
          run.submit(
            aRequest({ id: `${index}`, promptTokens, outputTokensMax: 80, stopTokenIds: [1, 5] }),
          );
        }
        const rate = decodeRate(await run.runToEnd());
        const { acceptedTokens, draftTokens } = run.engine.counters.drafts;
        return { rate, held: `${acceptedTokens}/${draftTokens}` };
      });
      const rates = (way: Way) => samplesOf(way).map(({ rate }) => rate);
      const [off] = ways;
      const offRates = off === undefined ? [] : rates(off);
      for (const way of ways.slice(1)) {
        const ratio = show(ratioOf(rates(way), offRates, random));
        rows.push({
          what: `${name}, batch ${batch}, ${way.name}`,
          ours: `${ratio} × off (${samplesOf(way).at(-1)?.held})`,
        });
      }
    }
  }
  return rows;
}
