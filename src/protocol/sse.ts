/** One event of a `text/event-stream`; `event` is absent when the stream named none. */
export interface SseFrame {
  readonly event?: string;
  readonly data: string;
}

/** Bytes to text. It must keep a byte order mark: the decoder drops the one at the very start. */
export type DecodeUtf8 = (bytes: Uint8Array) => string;

/**
 * What one push completed. After `event-too-large` the stream is unreadable: the frames that came
 * before the large event are still good, and every later push yields the same kind and no frames.
 */
export interface SseDecoded {
  readonly kind: "decoded" | "event-too-large";
  readonly frames: readonly SseFrame[];
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf] as const;

/**
 * Decodes server-sent events from bytes as they arrive, however they were cut: inside a CRLF, inside
 * a character, or many events at once. An event that the stream does not end with a blank line is
 * never delivered, because it may be half of one.
 *
 * Lines are cut as bytes and decoded whole, since CR and LF never occur inside a UTF-8 character.
 * That needs no decoder state and touches each byte once, so a large event costs linear time.
 */
export class SseDecoder {
  readonly #decodeUtf8: DecodeUtf8;
  readonly #eventBytesMax: number;
  /** The unfinished line: the first `#lineBytes` of a buffer that doubles when it is full. */
  #line = new Uint8Array(0);
  #lineBytes = 0;
  #event = "";
  #dataLines: string[] = [];
  /** Bytes of the finished lines that the open event is made of. */
  #eventBytes = 0;
  #isAfterCr = false;
  #isFirstLine = true;
  #isOverflowed = false;

  constructor(options: { readonly decodeUtf8: DecodeUtf8; readonly eventBytesMax: number }) {
    this.#decodeUtf8 = options.decodeUtf8;
    this.#eventBytesMax = options.eventBytesMax;
  }

  /** Takes the next bytes, of any length, and returns the events they complete. */
  push(bytes: Uint8Array): SseDecoded {
    const frames: SseFrame[] = [];
    if (this.#isOverflowed) return { kind: "event-too-large", frames };
    let lineStart = 0;
    for (let index = 0; index < bytes.length; index++) {
      const byte = bytes[index];
      const isSecondHalf = byte === LF && this.#isAfterCr;
      this.#isAfterCr = byte === CR;
      if (byte !== LF && byte !== CR) continue;
      if (!isSecondHalf) {
        if (this.#wouldOverflow(index - lineStart)) return this.#overflow(frames);
        this.#endLine(this.#completeLine(bytes.subarray(lineStart, index)), frames);
      }
      lineStart = index + 1;
    }
    if (this.#wouldOverflow(bytes.length - lineStart)) return this.#overflow(frames);
    this.#keep(bytes.subarray(lineStart));
    return { kind: "decoded", frames };
  }

  #wouldOverflow(addedBytes: number): boolean {
    return this.#eventBytes + this.#lineBytes + addedBytes > this.#eventBytesMax;
  }

  #overflow(frames: readonly SseFrame[]): SseDecoded {
    this.#isOverflowed = true;
    this.#line = new Uint8Array(0);
    this.#dataLines = [];
    return { kind: "event-too-large", frames };
  }

  #keep(part: Uint8Array): void {
    const neededBytes = this.#lineBytes + part.length;
    if (neededBytes > this.#line.length) {
      const grown = new Uint8Array(Math.max(neededBytes, 2 * this.#line.length));
      grown.set(this.#line.subarray(0, this.#lineBytes));
      this.#line = grown;
    }
    this.#line.set(part, this.#lineBytes);
    this.#lineBytes = neededBytes;
  }

  /** Most lines arrive in one piece and are never copied. */
  #completeLine(lastPart: Uint8Array): Uint8Array {
    let line = lastPart;
    if (this.#lineBytes > 0) {
      this.#keep(lastPart);
      line = this.#line.subarray(0, this.#lineBytes);
      this.#lineBytes = 0;
    }
    const hasMark = this.#isFirstLine && BYTE_ORDER_MARK.every((byte, at) => line[at] === byte);
    this.#isFirstLine = false;
    return hasMark ? line.subarray(BYTE_ORDER_MARK.length) : line;
  }

  #endLine(line: Uint8Array, frames: SseFrame[]): void {
    if (line.length === 0) {
      this.#endEvent(frames);
    } else if (line[0] !== COLON) {
      // The line's end counts too: a million empty `data` lines are not free either.
      this.#eventBytes += line.length + 1;
      this.#field(this.#decodeUtf8(line));
    }
  }

  /** `id` and `retry` steer a reconnecting browser; nobody reconnects to a replica's answer. */
  #field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    if (name !== "data" && name !== "event") return;
    const valueStart = line[colon + 1] === " " ? colon + 2 : colon + 1;
    const value = colon < 0 ? "" : line.slice(valueStart);
    if (name === "data") this.#dataLines.push(value);
    else this.#event = value;
  }

  #endEvent(frames: SseFrame[]): void {
    if (this.#dataLines.length > 0) {
      const data = this.#dataLines.join("\n");
      frames.push(this.#event === "" ? { data } : { event: this.#event, data });
    }
    this.#event = "";
    this.#dataLines = [];
    this.#eventBytes = 0;
  }
}

/** Writes one event; data with line breaks becomes several `data` lines, as a reader joins them. */
export function encodeSseFrame(frame: SseFrame): string {
  const event = frame.event === undefined ? "" : `event: ${frame.event}\n`;
  const data = frame.data.replaceAll(/\r\n|\r|\n/g, "\ndata: ");
  return `${event}data: ${data}\n\n`;
}
