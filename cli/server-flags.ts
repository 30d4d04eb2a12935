import * as z from "zod";
import { normalizeApiUrl } from "../src/tenants/endpoint-url.ts";
import { WrongUse } from "./command.ts";
import { FLAG_HELP } from "./flags.ts";

/** The name of an environment variable: keys do not belong into files and histories of shells. */
export const variableName = z
  .string()
  .regex(/^[A-Za-z_]\w*$/, "Expected the name of an environment variable");

/** The flag that says where the bearer token of a server is. */
export const tokenEnvFlag = variableName.optional().register(FLAG_HELP, {
  valueName: "NAME",
  meaning: "The environment variable that holds the bearer token",
});

/** The token in a variable; `undefined` where none is named. Throws `WrongUse` where the variable is empty. */
export function tokenFrom(
  name: string | undefined,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string | undefined {
  if (name === undefined) return undefined;
  const token = environment[name] ?? "";
  if (token === "") throw new WrongUse(`Expected ${name} in the environment`);
  return token;
}

/** A server's URL as a word of a command line has it, without the version of its API. Throws `WrongUse`. */
export function requireServerUrl(text: string | undefined, what: string): string {
  if (text === undefined) throw new WrongUse(`Expected the URL of the ${what}`);
  const url = normalizeApiUrl(text);
  if (url === undefined) {
    throw new WrongUse(`Expected a URL such as http://10.0.0.7:8000, found "${text}"`);
  }
  return url;
}
