import { PROGRESS_MEMBER } from "../protocol/continuation.ts";
import type { UpstreamChunk } from "../protocol/upstream-answer.ts";

/** What one chunk says that all chunks of its answer say alike, but for their text. */
export interface TemplatedChunk {
  /** For the client. */
  readonly clientFrame: string;
  /** Where the replica tells its tokens. */
  readonly tokenIds: readonly number[] | undefined;
}

/** Inside of a JSON string that is not empty. */
const STRING =
  // oxlint-disable-next-line no-control-regex -- JSON allows all but these
  /(?=[^"])[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[^"\\\u0000-\u001f]*)*/y;
/** Inside of a list of counts that is not empty. */
const COUNTS = /(?:0|[1-9]\d{0,14})(?:,(?:0|[1-9]\d{0,14}))*/y;

const TEXT_MEMBERS = { content: /"content":"/g, text: /"text":"/g } as const;
const IDS_MEMBER = /"token_ids":\[/g;

interface Hole {
  readonly pattern: RegExp;
  readonly from: number;
  readonly to: number;
}

/**
 * The chunk of a stream that was read last, with its text left out. Nearly all chunks of an answer differ in
 * nothing else, so one that fits needs no parsing: what is between its fixed parts is the inside of a JSON
 * string, which is all that could be wrong with it.
 */
export class ChunkTemplate {
  readonly #fixed: readonly string[];
  readonly #holes: readonly Hole[];
  readonly #clientFixed: readonly [string, string];

  private constructor(
    json: string,
    holes: readonly Hole[],
    clientFixed: readonly [string, string],
  ) {
    const ends = [0, ...holes.map(({ to }) => to)];
    this.#holes = holes;
    this.#fixed = ends.map((end, index) => json.slice(end, holes[index]?.from ?? json.length));
    this.#clientFixed = clientFixed;
  }

  /**
   * Of a chunk as it came, and as its client gets it. `undefined` where more than its text would differ in the
   * next one, or where that cannot be found for sure. `tellsTokens`: it says its tokens as well, which the
   * client does not get.
   */
  static of(
    { choices, usage, [PROGRESS_MEMBER]: progress }: UpstreamChunk,
    json: string,
    clientFrame: string,
    tellsTokens: boolean,
  ): ChunkTemplate | undefined {
    const [choice, ...others] = choices;
    if (choice === undefined || others.length > 0 || isPresent(choice.finish_reason))
      return undefined;
    if (isPresent(usage) || isPresent(progress?.start)) return undefined;
    const content = choice.delta?.["content"];
    const [member, value] =
      typeof content === "string"
        ? (["content", content] as const)
        : (["text", choice.text] as const);
    const text = holeIn(json, TEXT_MEMBERS[member], STRING);
    const clientText = holeIn(clientFrame, TEXT_MEMBERS[member], STRING);
    const ids = tellsTokens ? holeIn(json, IDS_MEMBER, COUNTS) : undefined;
    if (text === undefined || clientText === undefined) return undefined;
    if (JSON.parse(`"${json.slice(text.from, text.to)}"`) !== value) return undefined;
    if (tellsTokens && ids === undefined) return undefined;
    const holes = ids === undefined ? [text] : [text, ids].toSorted((a, b) => a.from - b.from);
    const { from, to } = clientText;
    return new ChunkTemplate(json, holes, [clientFrame.slice(0, from), clientFrame.slice(to)]);
  }

  /** Reads a chunk of the same form; `undefined`: it has another one, or none. */
  read(json: string): TemplatedChunk | undefined {
    let at = 0;
    let text = "";
    let tokenIds: readonly number[] | undefined;
    for (const [index, fixed] of this.#fixed.entries()) {
      if (!json.startsWith(fixed, at)) return undefined;
      at += fixed.length;
      const pattern = this.#holes[index]?.pattern;
      if (pattern === undefined) break;
      const found = insideAt(json, pattern, at);
      if (found === undefined) return undefined;
      at += found.length;
      if (pattern === STRING) text = found;
      else tokenIds = found.split(",").map(Number);
    }
    if (at !== json.length) return undefined;
    return { clientFrame: this.#clientFixed[0] + text + this.#clientFixed[1], tokenIds };
  }
}

const isPresent = (value: unknown): boolean => value !== undefined && value !== null;

/** Finds the one place where a member begins; its name can stand nowhere else, since quotes in texts are escaped. */
function holeIn(json: string, member: RegExp, pattern: RegExp): Hole | undefined {
  const [first, ...others] = json.matchAll(member);
  if (first === undefined || others.length > 0) return undefined;
  const from = first.index + first[0].length;
  const inside = insideAt(json, pattern, from);
  return inside === undefined ? undefined : { pattern, from, to: from + inside.length };
}

function insideAt(json: string, pattern: RegExp, at: number): string | undefined {
  pattern.lastIndex = at;
  return pattern.exec(json)?.[0];
}
