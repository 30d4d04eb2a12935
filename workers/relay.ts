import { SseDecoder } from "../src/protocol/sse.ts";
import type { TimelineRecorder } from "../src/slo/timeline.ts";
import type { TokenStream } from "../src/streaming/token-stream.ts";
import type { CallWatch } from "./call-watch.ts";
import { drainRest } from "./drain-rest.ts";
import type { TextSink } from "./paced-client.ts";
import type { AttemptLine } from "./reception.ts";
import { StallWatch } from "./stall-watch.ts";
import { withinMs } from "./within-ms.ts";

/** How long a replica may take between the things it says. */
export interface RelayLimits {
  /** From one event to the next, once there is a first token; longer, and the answer is broken. */
  readonly stallMs: number;
  /** For so long a client may leave unread what was written. */
  readonly unreadMs: number;
  /** From the last text to the counts and the end marker, which a whole answer can do without. */
  readonly finishGraceMs: number;
}

/** Between whom a stream is passed on, and who is to know of it. */
interface RelayParties {
  readonly stream: TokenStream;
  readonly client: TextSink;
  readonly watch: CallWatch;
  readonly timeline: TimelineRecorder;
  readonly line: AttemptLine;
}

/** The rest of the time is the other replica's, which has to compute all that there is once more. */
const GIVE_UP_RATIO = 0.5;
/** One event of 1 MB is extraordinary; a larger one than this is no answer to a chat. */
const EVENT_BYTES_MAX = 4_194_304;
/** After so long the pool is told of a first token that the client does not have yet. */
const TOLD_WITHIN_MS = 50;
/** What a replica may still send behind its end marker. */
const BEHIND_THE_END = { bytesMax: 65_536, durationMsMax: 200 } as const;

/**
 * Pumps a replica's stream to the client until one of them ends it, one write a read. Returns the
 * client's last text, which is not sent yet: first the caller gives back what the call holds.
 *
 * A pump over an identity stream is the one construction in which this code still runs when the
 * client has left; with `pipeThrough` or a `ReadableStream` nothing would settle the call.
 */
export async function relay(
  body: ReadableStream<Uint8Array>,
  parties: RelayParties,
  limits: RelayLimits,
): Promise<string> {
  const { stream, client, watch, timeline, line } = parties;
  const utf8 = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  const sse = new SseDecoder({
    decodeUtf8: (bytes) => utf8.decode(bytes),
    eventBytesMax: EVENT_BYTES_MAX,
  });
  const reader = body.getReader();
  const stalls = watchStalls({ reader, client, line }, limits);
  let text = "";
  let seenTokens = stream.outputChunks;
  let hasBegun = false;
  let hasAnswered = false;
  while (!stream.isOver) {
    // oxlint-disable-next-line no-await-in-loop -- tokens have an order
    const bytes = await readPart(reader, line.signal);
    const nowMs = Date.now();
    if (bytes === undefined) {
      const isLate = watch.reason === "timeout" && !stream.isFinished;
      if (isLate) text = stream.fail({ code: "timeout" });
      else text = stream.end(stalls.signal.aborted ? { code: "timeout" } : undefined);
      break;
    }
    const { kind, frames } = sse.push(bytes);
    text = frames.map((frame) => stream.push(frame, nowMs)).join("");
    if (stream.hasReleased && !hasAnswered) line.onAnswer();
    hasAnswered = stream.hasReleased;
    const newTokens = stream.outputChunks - seenTokens;
    const isFirst: boolean = !hasBegun && newTokens > 0;
    hasBegun ||= isFirst;
    timeline.tokens(newTokens, nowMs);
    seenTokens += newTokens;
    if (kind === "event-too-large") text += stream.breakOff();
    const sent = text === "" || stream.isOver ? undefined : sendRecorded(text, parties, limits);
    if (isFirst) void tellFirstToken(line, sent, nowMs);
    // oxlint-disable-next-line no-await-in-loop -- a slow client slows its replica down
    await sent;
    if (stream.isOver) break;
    // Until the first token the call's own instant stands, whatever a replica says meanwhile.
    if (frames.length === 0 || !stream.hasReleased) continue;
    const heardAtMs = Date.now();
    watch.expectBy(heardAtMs + (stream.isFinished ? limits.finishGraceMs : limits.stallMs));
    if (stream.isFinished) stalls.end();
    else stalls.heard(heardAtMs);
  }
  stalls.end();
  // Read to its end, the connection serves the next request. Nobody waits for an end that does not come.
  if (stream.phase === "ended") void drainRest(reader, BEHIND_THE_END);
  else await reader.cancel().catch(() => {});
  return text;
}

/** Sends text once it is on disk that the call has begun, for which the first one may have to wait. */
export async function sendRecorded(
  text: string,
  { client, watch, line }: Pick<RelayParties, "client" | "watch" | "line">,
  { unreadMs }: RelayLimits,
): Promise<void> {
  await line.recorded;
  watch.expectBy(Date.now() + unreadMs);
  await client.send(text);
}

/** What the pool learns can wait for the client's text, but not for a disk or a client that holds it up. */
async function tellFirstToken(
  line: AttemptLine,
  sent: Promise<void> | undefined,
  atMs: number,
): Promise<void> {
  if (sent !== undefined) await withinMs(sent, TOLD_WITHIN_MS).catch(() => {});
  if (!line.signal.aborted) line.onFirstToken(atMs);
}

/** Watches over the stream's pauses; reading ends when it is given up. */
function watchStalls(
  parties: {
    readonly reader: ReadableStreamDefaultReader<Uint8Array>;
    readonly client: TextSink;
    readonly line: AttemptLine;
  },
  { stallMs }: RelayLimits,
): StallWatch {
  const { reader, client, line } = parties;
  const giveUpMs = line.tellsTokens ? GIVE_UP_RATIO * stallMs : stallMs;
  const stalls = new StallWatch({
    markMs: Math.min(line.stallMarkMs, giveUpMs),
    giveUpMs,
    isBlocked: () => client.isBlocked,
    onStall: line.onStall,
    prospects: line.tellsTokens ? line.prospects : undefined,
  });
  const stop = (): void => void reader.cancel().catch(() => {});
  stalls.signal.addEventListener("abort", stop, { once: true });
  return stalls;
}

/**
 * A reset says the same as an end: no more bytes come. Whether enough came, the stream knows. Bytes that
 * were already there when the attempt was given up would show the client an answer that breaks off.
 */
async function readPart(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  signal: AbortSignal,
): Promise<Uint8Array | undefined> {
  try {
    const { done, value } = await reader.read();
    return done || signal.aborted ? undefined : value;
  } catch {
    return undefined;
  }
}
