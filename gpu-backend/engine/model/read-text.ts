import { readFileSync, statSync } from "node:fs";
import { messageOf } from "../message-of.ts";
import { ModelError } from "./model-error.ts";

/** Reads a text file of a model's folder; throws a `ModelError` for what is no file of at most `bytesMax`. */
export function readModelText(path: string, bytesMax: number): string {
  let size: number;
  try {
    const stats = statSync(path);
    if (!stats.isFile()) throw new Error("expected a file");
    size = stats.size;
  } catch (error) {
    throw unreadable(path, error);
  }
  if (size > bytesMax) {
    throw new ModelError(`${path} has ${size} bytes, expected at most ${bytesMax}`);
  }
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** Whether there is something under this name. */
export function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function unreadable(path: string, error: unknown): ModelError {
  return new ModelError(
    `Cannot read ${path}: ${messageOf(error)}; a model directory holds config.json and model.safetensors`,
  );
}
