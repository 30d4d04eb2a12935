import * as z from "zod";
import { fetchStatus } from "../admin-client.ts";
import type { Command, Terminal } from "../command.ts";
import { CommandFailure, EXIT_CODES, WrongUse } from "../command.ts";
import { examineServer } from "../doctor/examine-server.ts";
import { reportServer, snippetOf } from "../doctor/report-server.ts";
import { flagSwitch, parseWords, toHelpLines } from "../flags.ts";
import { findLocalRun } from "../run-file.ts";
import { requireServerUrl, SERVER_FLAGS, tokenIn } from "../server-flags.ts";

const FLAGS = z.object({
  ask: flagSwitch("Ask it for one short answer as well, which costs it a few tokens"),
  ...SERVER_FLAGS,
  local: flagSwitch('Give an engine that "sluice up" runs in this folder its token'),
  json: flagSwitch("Print the findings as one JSON object"),
});

/** `sluice doctor`: says which engine a server is, what it tells of itself, and how to configure it. */
export const doctorCommand: Command = {
  name: "doctor",
  synopsis: "URL [flags]",
  summary: "Find out which engine a server is, and what it says of itself",
  help: `Asks the server at URL which engine it is (vLLM, SGLang, TensorRT-LLM, TGI, llama.cpp, Dynamo, Ollama, or any
other with the OpenAI API), which signs of its load it gives, what would make it say more, and prints the part of a
configuration file that makes a pool of it. Changes nothing there. A Sluice gateway is told as such. The token of a
Sluice engine is its SLUICE_REPLICA_SECRET.

${toHelpLines(FLAGS)}`,
  run: runDoctor,
};

async function runDoctor(words: readonly string[], terminal: Terminal): Promise<number> {
  const { values: flags, positionals } = parseWords(words, FLAGS, 1);
  const baseUrl = requireServerUrl(positionals[0]);
  if (flags.model !== undefined && !flags.ask) {
    throw new WrongUse("Expected --ask with --model: without it no model is asked");
  }
  const engineToken = flags.local ? await localEngineToken(baseUrl) : undefined;
  const findings = await examineServer(
    { baseUrl, token: tokenIn(flags["token-env"], process.env) },
    {
      asksAnswer: flags.ask,
      modelId: flags.model,
      ...(engineToken !== undefined && { engineToken }),
    },
  );
  if (flags.json) {
    terminal.print(JSON.stringify({ url: baseUrl, ...findings }));
  } else if (findings.trouble !== undefined) {
    throw new CommandFailure(`${baseUrl}: ${findings.trouble}`);
  } else {
    for (const line of reportServer(baseUrl, findings)) terminal.print(line);
    const snippet = snippetOf(baseUrl, findings);
    if (snippet.length > 0) terminal.print(["", ...snippet].join("\n"));
  }
  const isWell = findings.engine !== undefined && findings.answer?.kind !== "failed";
  return isWell ? EXIT_CODES.ok : EXIT_CODES.failure;
}

/** The secret of a run is for its own engines, not for whatever else listens somewhere. */
async function localEngineToken(baseUrl: string): Promise<string | undefined> {
  const run = findLocalRun(process.cwd());
  if (run === undefined) throw new WrongUse('Expected "sluice up" to run in this folder');
  if (baseUrl === run.url) return undefined;
  const adminKey = run.secrets.SLUICE_ADMIN_KEY;
  const { pools } = await fetchStatus({ gatewayUrl: run.url, adminKey });
  const urls = pools.flatMap(({ replicas }) => replicas.map(({ endpointUrl }) => endpointUrl));
  if (urls.includes(baseUrl)) return run.secrets.SLUICE_REPLICA_SECRET;
  const known = urls.join(", ");
  throw new WrongUse(`Expected the URL of an engine of this folder's run: ${known}`);
}
