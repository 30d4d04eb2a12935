import { messageOf } from "../message-of.ts";
import { ModelError } from "./model-error.ts";

/** Parses JSON; a `ModelError` names the file by `path`. */
export function parseJson(json: string, path: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    const reason = messageOf(error);
    throw new ModelError(`${path} is not JSON: ${reason}`);
  }
}
