import * as z from "zod";

/** One thing that a scripted upstream does on its way through an answer. */
export const UpstreamStep = z.discriminatedUnion("kind", [
  z.strictObject({
    kind: z.literal("head"),
    status: z.int(),
    headers: z.record(z.string(), z.string()),
  }),
  z.strictObject({ kind: z.literal("text"), text: z.string() }),
  /** Bytes, where a text would not do: half a character, say. */
  z.strictObject({ kind: z.literal("bytes"), base64: z.base64() }),
  /** Goes on once the test opens the gate of this name, so that no test depends on timing. */
  z.strictObject({ kind: z.literal("gate"), name: z.string() }),
  z.strictObject({ kind: z.literal("pause"), ms: z.int() }),
  z.strictObject({ kind: z.literal("end") }),
  /** Destroys the connection with a TCP reset. */
  z.strictObject({ kind: z.literal("reset") }),
  /** Stays silent until the other side closes. */
  z.strictObject({ kind: z.literal("hang") }),
]);
export type UpstreamStep = z.infer<typeof UpstreamStep>;

/** What a scripted upstream saw of one request. */
export interface ReceivedRequest {
  /** Which of the engine's addresses it came to, from 0. */
  readonly address: number;
  /** The port from which it came: the same for requests that came on one connection. */
  readonly fromPort: number | undefined;
  readonly method: string;
  /** Below the engine's own base path. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** True once the connection closed before the answer was complete. */
  readonly closedEarly: boolean;
}

declare module "vitest" {
  interface ProvidedContext {
    /** Base URL of the scripted upstream. */
    upstreamUrl: string;
  }
}
