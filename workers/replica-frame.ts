import * as z from "zod";
import type { ReplicaCloseCode } from "../src/protocol/engine-api.ts";
import {
  REPLICA_CLOSE_CODES,
  REPLICA_FRAME_BYTES_MAX,
  REPLICA_PROTOCOL_VERSION,
  ReplicaFrame,
} from "../src/protocol/engine-api.ts";

/** A frame of a replica, or why its connection ends. */
export type ReadFrame =
  | { readonly kind: "frame"; readonly frame: ReplicaFrame }
  | { readonly kind: "unreadable"; readonly code: ReplicaCloseCode; readonly reason: string };

const OtherVersion = z.object({
  kind: z.literal("hello"),
  protocolVersion: z.unknown().refine((version) => version !== REPLICA_PROTOCOL_VERSION),
});

/** Reads one WebSocket message as a replica's frame. */
export function readReplicaFrame(message: string | ArrayBuffer): ReadFrame {
  if (typeof message !== "string") return badFrame("Expected text, found bytes");
  // A character is at least one byte, so this bounds what is parsed without encoding it again.
  if (message.length > REPLICA_FRAME_BYTES_MAX) {
    return badFrame(`Expected at most ${REPLICA_FRAME_BYTES_MAX} bytes, found more`);
  }
  const content = parseJson(message);
  const parsed = ReplicaFrame.safeParse(content);
  if (parsed.success) return { kind: "frame", frame: parsed.data };
  if (OtherVersion.safeParse(content).success) {
    const code = REPLICA_CLOSE_CODES.protocolVersion;
    return {
      kind: "unreadable",
      code,
      reason: `Expected protocol version ${REPLICA_PROTOCOL_VERSION}`,
    };
  }
  return badFrame("Expected a hello or a report");
}

function badFrame(reason: string): ReadFrame {
  return { kind: "unreadable", code: REPLICA_CLOSE_CODES.badFrame, reason };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
