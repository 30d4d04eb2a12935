import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CommandFailure } from "../../cli/command.ts";
import { readTrace } from "../../cli/read-trace.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";

const folder = createRunFolder();
afterAll(() => folder.remove());

test("a trace that breaks off in the middle is told by its file and line, behind what was right", () => {
  const file = join(folder.path, "trace.csv");
  writeFileSync(
    file,
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0000000,40,12\nnonsense,1,1\n",
  );
  const requests = readTrace(file, { requestsMax: 10 });
  expect(requests.next().value).toMatchObject({ promptTokens: 40, outputTokens: 12 });
  expect(() => requests.next()).toThrow(CommandFailure);
  expect(() => [...readTrace(file, { requestsMax: 10 })]).toThrow(/trace\.csv: Line 3/);
  const missing = join(folder.path, "missing.csv");
  expect(() => [...readTrace(missing, { requestsMax: 10 })]).toThrow(/missing\.csv: ENOENT/);
});
