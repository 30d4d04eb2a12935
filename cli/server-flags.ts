import * as z from "zod";
import { normalizeApiUrl } from "../src/tenants/endpoint-url.ts";
import { WrongUse } from "./command.ts";
import { FLAG_HELP } from "./flags.ts";

/** How an environment variable is called: keys do not belong into files or on command lines. */
export const VariableName = z
  .string()
  .regex(/^[A-Za-z_]\w*$/, "Expected the name of an environment variable");

/** What a command that asks a server with the OpenAI API wants to know of it. */
export const SERVER_FLAGS = {
  model: z.string().min(1).optional().register(FLAG_HELP, {
    valueName: "NAME",
    meaning: "The model to ask, by its own name (the server's first)",
  }),
  "token-env": VariableName.optional().register(FLAG_HELP, {
    valueName: "NAME",
    meaning: "The environment variable that holds the bearer token",
  }),
};

/** Reads the URL of a server as a command line has it, without the version of its API. Throws `WrongUse`. */
export function requireServerUrl(text: string | undefined, what = "server"): string {
  if (text === undefined) throw new WrongUse(`Expected the URL of the ${what}`);
  const url = normalizeApiUrl(text);
  if (url !== undefined) return url;
  throw new WrongUse(`Expected a URL such as http://10.0.0.7:8000, found "${text}"`);
}

/** Takes a bearer token from the variable that is named for it. Throws `WrongUse` where that holds none. */
export function tokenIn(
  name: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (name === undefined) return undefined;
  const token = environment[name] ?? "";
  if (token === "") throw new WrongUse(`Expected ${name} in the environment`);
  return token;
}
