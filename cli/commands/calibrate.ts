import * as z from "zod";
import { quantileOf } from "../../simulator/statistics.ts";
import { AnswerStreams } from "../bench/stream-answer.ts";
import { WALL_CLOCK } from "../bench/wall-clock.ts";
import type { EngineLimits, EnginePoint } from "../calibrate/engine-point.ts";
import type { FittedProfile } from "../calibrate/fit-profile.ts";
import { fitProfile } from "../calibrate/fit-profile.ts";
import { measureEngine } from "../calibrate/measure-engine.ts";
import { probeEngine } from "../calibrate/probe-engine.ts";
import { pointText, reportProfile } from "../calibrate/report-profile.ts";
import type { Command, Terminal } from "../command.ts";
import { CommandFailure, EXIT_CODES, WrongUse } from "../command.ts";
import type { ServerAccess } from "../doctor/ask-server.ts";
import { askServer } from "../doctor/ask-server.ts";
import { examineServer } from "../doctor/examine-server.ts";
import { countFlag, FLAG_HELP, parseWords, toHelpLines, wholeNumber } from "../flags.ts";
import { onInterrupt } from "../on-interrupt.ts";
import { requireWritable, writeResult } from "../result-file.ts";
import { requireServerUrl, SERVER_FLAGS, tokenIn } from "../server-flags.ts";

const TOKENS_MAX = 100_000_000;
const CONTEXT_TOKENS = 8_192;
const ANSWER_MS_MAX = 300_000;
const ROUND_TRIPS = 7;
/** Beyond these a profile is written all the same, and not to be believed. */
const MEAN_ERROR_RATIO_MAX = 0.05;
const WORST_ERROR_RATIO_MAX = 0.2;

const FLAGS = z.object({
  "kv-tokens": wholeNumber(256, TOKENS_MAX).optional().register(FLAG_HELP, {
    valueName: "N",
    meaning: "Tokens that its KV cache holds, as it says at its start; must be given",
  }),
  "max-sequences": countFlag(
    { min: 1, max: 100_000, default: 256 },
    "Requests that it runs at once",
  ),
  "max-batch-tokens": countFlag(
    { min: 128, max: TOKENS_MAX, default: 8_192 },
    "Tokens that it computes in one step",
  ),
  context: wholeNumber(256, TOKENS_MAX)
    .optional()
    .register(FLAG_HELP, {
      valueName: "N",
      meaning: `Longest context (as it says, or ${CONTEXT_TOKENS})`,
    }),
  ...SERVER_FLAGS,
  name: z.string().min(1).max(200).optional().register(FLAG_HELP, {
    valueName: "NAME",
    meaning: "What to call the profile (the model's name)",
  }),
  out: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "FILE",
    meaning: "Write the profile there, and what was measured to stdout",
  }),
});
type Flags = z.output<typeof FLAGS>;

/** `sluice calibrate`: measures an engine and writes its profile. */
export const calibrateCommand: Command = {
  name: "calibrate",
  synopsis: "URL --kv-tokens N [flags]",
  summary: "Measure a running engine and write its profile for sluice plan",
  help: `Measures the engine at URL (the engine itself, not a gateway before it; nobody else may use it meanwhile):
lone prompts of eight lengths, then batches of 1, 2, 4 ... answers behind short and long prompts. What each step took is
fitted, and the profile is printed as JSON. Every prompt is new to it, so its prefix cache does not help. Takes a minute
or some, and the tokens of a few thousand requests.

${toHelpLines(FLAGS)}

The error of the profile is told point by point. Above ${100 * MEAN_ERROR_RATIO_MAX} % on average or ${100 * WORST_ERROR_RATIO_MAX} % at the worst it is written all the
same, with a warning.`,
  run: runCalibrate,
};

async function runCalibrate(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const access = {
    baseUrl: requireServerUrl(positionals[0], "engine"),
    token: tokenIn(flags["token-env"], process.env),
  };
  const kvTokens = flags["kv-tokens"];
  if (kvTokens === undefined) throw new WrongUse("Expected --kv-tokens");
  if (flags.out !== undefined) requireWritable(flags.out);
  const { model, contextTokens } = await findModel(access, flags);
  const limits = {
    sequencesMax: flags["max-sequences"],
    batchTokensMax: flags["max-batch-tokens"],
    kvTokens,
    contextTokens,
  };
  const points = await measure(access, model, limits, terminal);
  const source = `measured at ${access.baseUrl} on ${new Date().toISOString().slice(0, 10)}`;
  tell(fitProfile(points, limits, { name: flags.name ?? model, source }), flags.out, terminal);
  return EXIT_CODES.ok;
}

async function measure(
  access: ServerAccess,
  model: string,
  limits: EngineLimits,
  terminal: Terminal,
): Promise<EnginePoint[]> {
  const { baseUrl, token } = access;
  const server = {
    baseUrl,
    model,
    endpoint: "chat",
    ignoresEos: true,
    answerMsMax: ANSWER_MS_MAX,
  } as const;
  const interrupt = onInterrupt();
  const streams = new AnswerStreams(server, () => WALL_CLOCK.readNowMs());
  try {
    return await measureEngine({
      ...limits,
      ask: await probeEngine(streams, token, interrupt.signal),
      roundTripMs: await roundTripMsOf(access),
      onPoint: (point) => terminal.complain(pointText(point)),
    });
  } finally {
    interrupt.release();
    streams.close();
  }
}

async function findModel(access: ServerAccess, flags: Flags) {
  const options = { asksAnswer: false, modelId: undefined };
  const { models, trouble } = await examineServer(access, options);
  if (trouble !== undefined) throw new CommandFailure(`${access.baseUrl}: ${trouble}`);
  const found = models.find(({ modelId }) => modelId === flags.model) ?? models[0];
  const model = flags.model ?? found?.modelId;
  if (model === undefined) {
    throw new CommandFailure(`${access.baseUrl} names no model: say which with --model`);
  }
  return { model, contextTokens: flags.context ?? found?.contextTokens ?? CONTEXT_TOKENS };
}

/** What the way there and back takes; its half-known rest is in what prompts are found to take. */
async function roundTripMsOf(access: ServerAccess): Promise<number> {
  const tripsMs: number[] = [];
  for (let trip = 0; trip < ROUND_TRIPS; trip += 1) {
    const sentAtMs = WALL_CLOCK.readNowMs();
    await askServer(access, "/v1/models");
    tripsMs.push(WALL_CLOCK.readNowMs() - sentAtMs);
  }
  return quantileOf(tripsMs, 0.5);
}

function tell(fitted: FittedProfile, out: string | undefined, terminal: Terminal): void {
  const json = JSON.stringify(fitted.profile, undefined, 2);
  const report = reportProfile(fitted);
  if (out === undefined) {
    terminal.print(json);
    for (const line of report) terminal.complain(line);
  } else {
    writeResult(out, `${json}\n`);
    for (const line of report) terminal.print(line);
  }
  const { meanErrorRatio, worstErrorRatio } = fitted;
  if (meanErrorRatio > MEAN_ERROR_RATIO_MAX || worstErrorRatio > WORST_ERROR_RATIO_MAX) {
    terminal.complain(
      "Warning: the profile is far off what was measured. Was the engine used by others, or the machine?",
    );
  }
}
