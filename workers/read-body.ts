type BodyReader = ReadableStreamDefaultReader<Uint8Array>;

/**
 * Reads a body to its end, or returns `undefined` when it turns out to be larger than `bytesMax`.
 * Then `endRest` decides what becomes of the rest; unless told otherwise it is not read. Rejects
 * when the sender goes away.
 */
export async function readBody(
  body: ReadableStream<Uint8Array> | null,
  bytesMax: number,
  endRest: (reader: BodyReader) => Promise<void> = refuseRest,
): Promise<Uint8Array | undefined> {
  if (body === null) return new Uint8Array(0);
  const parts: Uint8Array[] = [];
  let bytes = 0;
  const reader = body.getReader();
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop -- the next part comes after this one
    const { done, value } = await reader.read();
    if (done) break;
    bytes += value.length;
    if (bytes > bytesMax) {
      await endRest(reader);
      return undefined;
    }
    parts.push(value);
  }
  return concatenate(parts, bytes);
}

async function refuseRest(reader: BodyReader): Promise<void> {
  await reader.cancel().catch(() => {});
}

function concatenate(parts: readonly Uint8Array[], bytes: number): Uint8Array {
  const whole = new Uint8Array(bytes);
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
