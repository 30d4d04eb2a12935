import { ModelError } from "./model-error.ts";

/** Parses JSON; a `ModelError` names the file by `path`. */
export function parseJson(json: string, path: string): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ModelError(`${path} is not JSON: ${reason}`);
  }
}
