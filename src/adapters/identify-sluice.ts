import * as z from "zod";
import { ERRORS } from "../protocol/errors.ts";
import { GATEWAY_NAME } from "../protocol/gateway-health.ts";
import type { ProbeAnswer } from "./engine-adapter.ts";
import { jsonOf } from "./read-answer.ts";

/** Which of our own servers answers. */
export type SluiceServer = "gateway" | "engine";

/** Only ours are asked for it, whom it costs nothing. */
export const SLUICE_HEALTH_PATH = "/health";

const GatewayHealth = z.object({ server: z.literal(GATEWAY_NAME) });
const Refusal = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

/** Whether a refusal is worded as our servers word it to whom they want a key from. */
export function isOurRefusal(answer: ProbeAnswer): boolean {
  if (answer === undefined) return false;
  const refusal = jsonOf({ ...answer, status: 200 }, Refusal)?.error;
  return (["missing_api_key", "invalid_api_key"] as const).some(
    (code) => refusal?.code === code && refusal.message === ERRORS[code].message,
  );
}

/** Tells a gateway from an engine by its health, which both say without a key. */
export function sluiceServerOf(health: ProbeAnswer): SluiceServer {
  return jsonOf(health, GatewayHealth) === undefined ? "engine" : "gateway";
}
