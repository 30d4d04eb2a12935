import * as z from "zod";
import { ChatMessage, MESSAGES_MAX } from "./chat.ts";
import { ModelId } from "./ids.ts";
import { optional } from "./parameter-schemas.ts";
import { Tool, TOOLS_MAX } from "./tools.ts";
import { faultOf } from "./validation.ts";

/** A request for the tokens that a text or a conversation would have as a prompt. */
export const TokenizeRequest = z
  .object({
    model: ModelId,
    prompt: optional(z.string()),
    messages: optional(z.array(ChatMessage).min(1).max(MESSAGES_MAX)),
    tools: optional(z.array(Tool).min(1).max(TOOLS_MAX)),
  })
  .refine((request) => (request.prompt === undefined) !== (request.messages === undefined), {
    ...faultOf("invalid_value", "there if and only if 'messages' is absent"),
    path: ["prompt"],
  });
export type TokenizeRequest = z.infer<typeof TokenizeRequest>;

/** What the prompt would cost. */
export interface TokenizeAnswer {
  readonly count: number;
  readonly max_model_len: number;
  readonly tokens: readonly number[];
}
