import { readFileSync } from "node:fs";
import { parse } from "yaml";
import type * as z from "zod";
import { CommandFailure, messageOf } from "./command.ts";

/** Reads a small YAML file of some shape. Throws a `CommandFailure` that names all that is wrong with it. */
export function readYamlAs<Shape extends z.ZodType>(file: string, shape: Shape): z.output<Shape> {
  let document: unknown;
  try {
    document = parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new CommandFailure(`${file}: ${messageOf(error)}`);
  }
  const read = shape.safeParse(document);
  if (read.success) return read.data;
  const faults = read.error.issues.map(
    ({ path, message }) => `${file}: ${path.join(".")}: ${message}`,
  );
  throw new CommandFailure(faults.join("\n"));
}
