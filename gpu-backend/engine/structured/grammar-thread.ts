import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { CompiledGrammar, GrammarCompiler, GrammarMatcher } from "@mlc-ai/web-xgrammar";
import { assert } from "../../../src/base/assert.ts";
import { keyedRandom } from "../keyed-random.ts";
import { messageOf } from "../message-of.ts";
import { loadGrammarLibrary } from "./grammar-library.ts";
import type { GrammarCommand, GrammarMessage, GrammarThreadInput } from "./grammar-messages.ts";
import { MaskMemory } from "./mask-memory.ts";
import type { Vocabulary } from "./vocabulary.ts";

/** Steps of a made-up text that a new grammar is tried with. */
const REHEARSAL_STEPS = 32;
const REHEARSAL_SEED = 1;

interface FollowedSequence {
  readonly matcher: GrammarMatcher;
  readonly memory: MaskMemory;
}

const { vocabulary }: GrammarThreadInput = workerData;
const port = ownPort();
const library = await loadGrammarLibrary();
const compiler = await createCompiler(vocabulary);
const sequences = new Map<number, FollowedSequence>();
let compiled: CompiledGrammar | undefined;

// The library answers by promises; in a chain, what was asked first is also done first.
let commands = Promise.resolve();
port.on("message", (command: GrammarCommand) => {
  commands = commands.then(() => perform(command)).catch(breakOff);
});
post({ kind: "started" });

async function perform(command: GrammarCommand): Promise<void> {
  switch (command.kind) {
    case "compile": {
      compiled?.dispose();
      const grammar = await library.Grammar.fromEBNF(command.grammar);
      compiled = await compiler.compileGrammar(grammar);
      grammar.dispose();
      await rehearse(compiled);
      post({ kind: "compiled" });
      break;
    }
    case "open": {
      assert(compiled !== undefined, "a grammar was compiled before a sequence is opened");
      const matcher = await library.GrammarMatcher.createGrammarMatcher(compiled);
      const sequence = { matcher, memory: new MaskMemory(command.memory) };
      sequences.set(command.id, sequence);
      // They come from elsewhere. Where they do not fit, their sequence ends for want of a next token.
      if (acceptAll(matcher, command.emittedTokens)) await publishMask(sequence);
      else sequence.memory.publish();
      break;
    }
    case "accept": {
      const sequence = sequences.get(command.id);
      assert(sequence !== undefined, "a sequence is open while tokens come");
      const isAccepted = sequence.matcher.acceptToken(command.tokenId);
      assert(isAccepted, `token ${command.tokenId} is one that the mask allowed`);
      await publishMask(sequence);
      break;
    }
    case "go-back":
      sequences.get(command.id)?.matcher.rollBack(command.tokens);
      break;
    case "close":
      sequences.get(command.id)?.matcher.dispose();
      sequences.delete(command.id);
      break;
  }
}

/**
 * The library ends by trapping, and does not clean up behind itself: whatever it holds is void from
 * there on. Those who wait for a mask are told at once.
 */
function breakOff(error: unknown): void {
  for (const { memory } of sequences.values()) memory.breakOff();
  post({ kind: "broken", message: messageOf(error) });
}

async function publishMask({ matcher, memory }: FollowedSequence): Promise<void> {
  // Behind the token that ends the text nothing may follow, and the library must not be asked.
  if (matcher.isTerminated()) memory.mask.fill(0);
  else memory.write(await matcher.getNextTokenBitmask(), vocabulary.logitCount);
  memory.publish();
}

/** Far quicker than by masks, of which only the last is of use. */
function acceptAll(matcher: GrammarMatcher, tokenIds: readonly number[]): boolean {
  return tokenIds.every((tokenId) => !matcher.isTerminated() && matcher.acceptToken(tokenId));
}

/**
 * Follows one text of random tokens. A grammar whose masks are slow to find shows it here, while only
 * its sender waits, and the first real text finds much of the work done.
 */
async function rehearse(grammar: CompiledGrammar): Promise<void> {
  const matcher = await library.GrammarMatcher.createGrammarMatcher(grammar);
  for (let step = 0; step < REHEARSAL_STEPS && !matcher.isTerminated(); step += 1) {
    const allowed = tokensOf(await matcher.getNextTokenBitmask());
    const tokenId = allowed[Math.floor(keyedRandom(REHEARSAL_SEED, step) * allowed.length)];
    if (tokenId === undefined || !matcher.acceptToken(tokenId)) {
      throw new Error("The grammar leads to where nothing is allowed");
    }
  }
  matcher.dispose();
}

function tokensOf(mask: Int32Array): number[] {
  const tokens: number[] = [];
  for (let id = 0; id < vocabulary.logitCount; id += 1) {
    if ((((mask[id >> 5] ?? 0) >>> (id & 31)) & 1) === 1) tokens.push(id);
  }
  return tokens;
}

async function createCompiler({ bytes, ends, endTokenIds }: Vocabulary): Promise<GrammarCompiler> {
  const tokens = Array.from(ends, (end, id) => bytes.slice(ends[id - 1] ?? 0, end));
  // The library's types want strings, its code takes bytes as well: half a character is no string.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- see above
  const texts = tokens as unknown as string[];
  const tokenizer = await library.TokenizerInfo.createTokenizerInfo(
    texts,
    "raw",
    false,
    ends.length,
    [...endTokenIds],
  );
  // We keep what was compiled; a second cache within would hold on to it for ever.
  return library.GrammarCompiler.createGrammarCompiler(tokenizer, false);
}

function ownPort(): MessagePort {
  assert(parentPort !== null, "this is the program of a thread");
  return parentPort;
}

function post(message: GrammarMessage): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  port.postMessage(message);
}
