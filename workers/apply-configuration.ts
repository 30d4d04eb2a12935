import type { Thing } from "../src/tenants/configuration-rows.ts";
import { toRow } from "../src/tenants/configuration-rows.ts";
import type { ConfigurationUpload } from "./configuration-upload.ts";
import { DIRECTORY_NAME } from "./directory-object.ts";
import type { Env } from "./env.ts";
import { GatewayError } from "./gateway-error.ts";
import type { Applied } from "./staged-change.ts";

/** Rows are sent in pieces of so many characters: one value in SQLite may have 2 MB. */
const PIECE_CHARACTERS_MAX = 1_000_000;

const RETRY_AFTER_MS = 1_000;

/** Sends a configuration to the Directory, thing by thing, and does with it what `end` says. */
export async function uploadConfiguration<Result>(
  things: Iterable<Thing> | AsyncIterable<Thing>,
  env: Env,
  end: (upload: Pick<ConfigurationUpload, "commit" | "preview">) => Promise<Result>,
): Promise<Result> {
  using answer = await env.DIRECTORY.getByName(DIRECTORY_NAME).upload();
  if (answer.kind === "busy") {
    throw new GatewayError({
      code: "server_is_overloaded",
      message: "Other configurations are being applied at the moment",
      retryAfterMs: RETRY_AFTER_MS,
    });
  }
  const { upload } = answer;
  let piece: string[] = [];
  let characters = 0;
  const send = async (): Promise<void> => {
    const added = await upload.add(`[${piece.join(",")}]`);
    if (added.kind === "repeated") throw invalid([`the ${added.thing} is there twice`]);
    if (added.kind === "too-large") throw new GatewayError({ code: "request_too_large" });
    piece = [];
    characters = 0;
  };
  for await (const thing of things) {
    const row = JSON.stringify(toRow(thing));
    if (characters + row.length > PIECE_CHARACTERS_MAX && piece.length > 0) await send();
    piece.push(row);
    characters += row.length;
  }
  if (piece.length > 0) await send();
  return end(upload);
}

/** Returns what has gone live, or throws why nothing has. */
export function orRefuse(
  applied: Applied,
  expectedVersion?: number,
): Extract<Applied, { kind: "applied" | "unchanged" }> {
  if (applied.kind === "invalid") throw invalid(applied.problems);
  if (applied.kind === "conflict") {
    throw new GatewayError({
      code: "version_conflict",
      message: `Expected version ${expectedVersion} to be live, found version ${applied.version}`,
      param: "expectedVersion",
    });
  }
  return applied;
}

function invalid(problems: readonly string[]): GatewayError {
  const message = `The configuration cannot go live: ${problems.join("; ")}`;
  return new GatewayError({ code: "invalid_value", message, param: "configuration" });
}
