import { rm } from "node:fs/promises";
import * as z from "zod";
import {
  embeddingValueBytesOf,
  HEAP_BYTES_MAX,
  heapBytesOf,
  planMemory,
} from "../../gpu-backend/engine/executor/memory-plan.ts";
import { loadModel } from "../../gpu-backend/engine/model/load-model.ts";
import { ModelError } from "../../gpu-backend/engine/model/model-error.ts";
import {
  hubCacheFolder,
  isRepositoryName,
  isRevision,
  MAIN_REVISION,
  snapshotFolder,
} from "../../gpu-backend/model-store/hub-cache.ts";
import { CommandFailure, WrongUse } from "../command.ts";
import { FLAG_HELP, flagSwitch } from "../flags.ts";
import { bytesText } from "../models/bytes-text.ts";
import { type CachedModel, findCachedModel, listCachedModels } from "../models/cached-models.ts";
import { hubAccessOf } from "../models/hub-client.ts";
import { ProgressBar } from "../models/progress-bar.ts";
import { pullModel } from "../models/pull-model.ts";
import { commandOf, requireYes, toColumns, verb, type VerbResult } from "../verbs.ts";

const ENVIRONMENT = `HF_TOKEN lets us in where a model needs permission, HF_ENDPOINT names another hub than
https://huggingface.co, HF_HUB_CACHE or HF_HOME the folder that models are kept in (~/.cache/huggingface).`;

const json = flagSwitch("Print one JSON object");
const revision = z
  .string()
  .refine(isRevision, "Expected a branch, a tag or a commit")
  .default(MAIN_REVISION)
  .register(FLAG_HELP, { valueName: "REVISION", meaning: "Branch, tag or commit (main)" });

const pull = verb({
  name: "pull",
  summary: "download a model, or the rest of it",
  words: ["ORG/NAME"],
  flags: z.object({
    revision,
    force: flagSwitch("Download also what the engine does not compute"),
    json,
  }),
  run: (flags, name = "") => runPull(requireName(name), flags),
});

const list = verb({
  name: "list",
  summary: "tell which models are here",
  words: [],
  flags: z.object({ json }),
  async run() {
    const cacheFolder = hubCacheFolder(process.env);
    const models = listCachedModels(cacheFolder);
    const rows = models.map((model) => [
      model.repository,
      bytesText(model.byteLength),
      Object.keys(model.revisions).join(", ") || "-",
      model.isComplete ? "" : "not whole: pull it again",
    ]);
    const lines =
      rows.length === 0
        ? [`No models in ${cacheFolder}: sluice models pull ORG/NAME downloads one`]
        : toColumns([["model", "size", "revisions", ""], ...rows]);
    return { lines, json: { cacheFolder, models } };
  },
});

const show = verb({
  name: "show",
  summary: "tell what a model is, and what it takes",
  words: ["ORG/NAME"],
  flags: z.object({ revision, json }),
  async run(flags, name = "") {
    const model = requireCached(requireName(name));
    const directory = snapshotFolder(model.folder, flags.revision);
    if (directory === undefined) {
      throw new CommandFailure(`${name} is not here at ${flags.revision}: pull that revision`);
    }
    return describe(model, directory);
  },
});

const remove = verb({
  name: "rm",
  summary: "take a model away, with all of its revisions",
  words: ["ORG/NAME"],
  flags: z.object({ yes: flagSwitch("Do it"), json }),
  async run(flags, name = "") {
    const { repository, folder, byteLength } = requireCached(requireName(name));
    requireYes(flags.yes, [`Takes ${folder} away, ${bytesText(byteLength)}`]);
    await rm(folder, { recursive: true });
    return {
      lines: [`${repository} is gone, ${bytesText(byteLength)} are free`],
      json: { repository, folder, byteLength },
    };
  },
});

/** `sluice models`: the models on this machine, in the folder of Hugging Face's own libraries. */
export const modelsCommand = commandOf(
  {
    name: "models",
    summary: "Download models, and tell which are here",
    environment: ENVIRONMENT,
  },
  [pull, list, show, remove],
);

async function runPull(
  repository: string,
  flags: { readonly revision: string; readonly force: boolean },
): Promise<VerbResult> {
  const bar = new ProgressBar(process.stderr, () => performance.now());
  try {
    const pulled = await pullModel(hubAccessOf(process.env), {
      repository,
      revision: flags.revision,
      cacheFolder: hubCacheFolder(process.env),
      isForced: flags.force,
      onProgress: (progress) => bar.update(progress),
    });
    const use = `sluice up --model ${flags.revision === MAIN_REVISION ? repository : pulled.directory}`;
    return {
      lines: [
        `${repository} at ${pulled.commit}, ${bytesText(pulled.byteLength)}`,
        pulled.directory,
        use,
      ],
      json: { repository, ...pulled },
    };
  } finally {
    bar.end();
  }
}

function requireName(name: string): string {
  if (isRepositoryName(name)) return name;
  throw new WrongUse(`Expected ORG/NAME as the hub has it, found "${name}"`);
}

function requireCached(repository: string): CachedModel {
  const model = findCachedModel(hubCacheFolder(process.env), repository);
  if (model !== undefined) return model;
  throw new CommandFailure(`${repository} is not here: sluice models pull ${repository}`);
}

const BATCH_TOKENS = 256;
const BLOCK_TOKENS = 16;
const BLOCK_COUNT = 128;

async function describe(
  { repository, byteLength }: CachedModel,
  directory: string,
): Promise<VerbResult> {
  const facts = [`${repository}, ${bytesText(byteLength)}`, directory];
  try {
    const model = await loadModel(directory);
    model.close();
    const { config, parameterCount } = model;
    const embeddingValueBytes = embeddingValueBytesOf(model);
    const plans = (["int8", "f32"] as const).map((precision) => {
      const needs = {
        precision,
        kvPrecision: precision,
        blockTokens: BLOCK_TOKENS,
        blockCount: BLOCK_COUNT,
        batchTokensMax: BATCH_TOKENS,
        embeddingValueBytes,
      };
      const plan = planMemory(config, needs);
      const fits = heapBytesOf(plan) <= HEAP_BYTES_MAX;
      return { precision, fits, ...plan };
    });
    const rows = plans.map((plan) => [
      plan.precision,
      bytesText(plan.weightBytes),
      bytesText(plan.kvPoolBytes / plan.kvPoolTokens),
      bytesText(plan.scratchBytes),
      plan.fits ? "yes" : "no",
    ]);
    const heads = ["precision", "weights", "KV of a token", "a step's buffers", "fits"];
    const lines = [
      ...facts,
      `${parameterCount} parameters, ${config.layerCount} layers of ${config.hiddenSize}, ${config.headCount} heads over ${config.kvHeadCount}, ${config.vocabularyTokens} tokens, context ${config.contextTokens}`,
      ...config.notes,
      ...toColumns([heads, ...rows]),
    ];
    return {
      lines,
      json: { repository, directory, byteLength, supported: true, parameterCount, config, plans },
    };
  } catch (error) {
    if (!(error instanceof ModelError)) throw error;
    const { message: reason } = error;
    return {
      lines: [...facts, reason],
      json: { repository, directory, byteLength, supported: false, reason },
    };
  }
}
