/** Lines are joined to chunks of about this size: each chunk costs a message of its own. */
const CHUNK_CHARACTERS = 65_536;

/** Turns texts into a stream of bytes, made as they are read: a reader who leaves costs nothing more. */
export function toByteStream(texts: Iterator<string>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    // Only streams of bytes can be handed from an object to its caller.
    type: "bytes",
    pull: (controller) => {
      let chunk = "";
      while (chunk.length < CHUNK_CHARACTERS) {
        const { done, value } = texts.next();
        if (done === true) break;
        chunk += value;
      }
      if (chunk === "") controller.close();
      else controller.enqueue(encoder.encode(chunk));
    },
  });
}
