import { join } from "node:path";
import { expect, test } from "vitest";
import { azureArrivals } from "../../../simulator/traces/azure.ts";
import { linesOf } from "../../../simulator/traces/lines.ts";
import { sharedTraces } from "../shared-traces.ts";
import { meanOf } from "../workloads/moments.ts";

const HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens";
const ALL = { requestsMax: 100_000 };

const read = (...rows: string[]) => [...azureArrivals([HEADER, ...rows], ALL)];

test("a row is one request, counted from the first one's instant", () => {
  const arrivals = azureArrivals(
    [HEADER, "2023-11-16 18:15:46.6805900,374,44", "2023-11-16 18:15:50.9951690,396,109"],
    { requestsMax: 10, tenantIndex: 3 },
  );
  const [first, second] = [...arrivals];
  expect(first).toEqual({
    atMs: 0,
    tenantIndex: 3,
    promptTokens: 374,
    outputTokens: 44,
    prefixGroup: 0,
    prefixTokens: 0,
  });
  expect(second?.atMs).toBeCloseTo(4314.579, 2);
});

const msBetween = (before: string, after: string) => read(`${before},1,1`, `${after},1,1`)[1]?.atMs;

test("time goes on over the ends of days, months and leap years", () => {
  expect(msBetween("2023-11-30 23:00:00.0", "2023-12-01 01:00:00.0")).toBe(2 * 3_600_000);
  expect(msBetween("2024-02-28 23:00:00.0", "2024-03-01 01:00:00.0")).toBe(26 * 3_600_000);
  expect(msBetween("2023-02-28 23:00:00.0", "2023-03-01 01:00:00.0")).toBe(2 * 3_600_000);
  expect(msBetween("2023-12-31 23:00:00.0", "2024-01-01 01:00:00.0")).toBe(2 * 3_600_000);
});

test("the timestamps of 2024 name their zone", () => {
  const arrivals = read("2024-05-10 00:00:00.009930+00:00,10,1", "2024-05-10 00:00:01+00:00,10,1");
  expect(arrivals[1]?.atMs).toBeCloseTo(990.07, 2);
});

test.each([
  ["2023-11-16 18:15:46,374", 2, "3 fields"],
  ["2023-11-16 18:15:46,many,44", 2, "a whole number of at least 0 as ContextTokens"],
  ["2023-11-16 18:15:46,-1,44", 2, "a whole number of at least 0 as ContextTokens"],
  ["2023-11-16 18:15:46,1.5,44", 2, "a whole number of at least 0 as ContextTokens"],
  ["2023-11-16 18:15:46,374,", 2, "a whole number of at least 0 as GeneratedTokens"],
  ["yesterday,374,44", 2, "a UTC timestamp as TIMESTAMP"],
  ["2023-11-16 18:15:46+02:00,374,44", 2, "a UTC timestamp as TIMESTAMP"],
  ['"2023-11-16 18:15:46",374,44', 2, "fields without quotes"],
])("a row %s is an error that names its line and what was expected", (row, line, expected) => {
  expect(() => read(row)).toThrow(`Line ${line}: expected ${expected}`);
});

test("time that runs backwards is an error", () => {
  expect(() => read("2023-11-16 18:15:46,1,1", "2023-11-16 18:15:45,1,1")).toThrow(
    "Line 3: expected rows in order of time",
  );
});

test("a file without the columns, or without anything, is an error", () => {
  expect(() => [...azureArrivals(["TIMESTAMP,ContextTokens"], ALL)]).toThrow(
    "Line 1: expected a header with GeneratedTokens",
  );
  expect(() => [...azureArrivals([], ALL)]).toThrow("Line 1: expected a header");
});

test("columns may stand in any order, and lines may be empty", () => {
  const lines = ["GeneratedTokens,TIMESTAMP,ContextTokens", "44,2023-11-16 18:15:46,374", ""];
  expect([...azureArrivals(lines, ALL)]).toMatchObject([{ promptTokens: 374, outputTokens: 44 }]);
});

test("reading stops at the bound and does not look at what follows", () => {
  const lines = [HEADER, "2023-11-16 18:15:46,1,1", "2023-11-16 18:15:47,2,1", "broken"];
  expect([...azureArrivals(lines, { requestsMax: 2 })]).toHaveLength(2);
  expect([...azureArrivals(lines, { requestsMax: 0 })]).toHaveLength(0);
  expect(() => [...azureArrivals(lines, { requestsMax: 3 })]).toThrow("Line 4");
});

test("prompts beyond the bound are left out, and no length is below one token", () => {
  const lines = [HEADER, "2023-11-16 18:15:46,9,1", "2023-11-16 18:15:47,0,0"];
  const arrivals = [...azureArrivals(lines, { requestsMax: 9, promptTokensMax: 8 })];
  expect(arrivals).toMatchObject([{ atMs: 1000, promptTokens: 1, outputTokens: 1 }]);
});

test.for([
  { name: "conv", rows: 19_366, minutes: 58, prompt: 1155, output: 211 },
  { name: "code", rows: 8819, minutes: 57, prompt: 2048, output: 28 },
])("the public $name trace has its published rows and means", (published, context) => {
  const folder = sharedTraces(context);
  const path = join(folder, `azure/AzureLLMInferenceTrace_${published.name}.csv`);
  const arrivals = [...azureArrivals(linesOf(path), ALL)];
  expect(arrivals).toHaveLength(published.rows);
  expect(Math.floor((arrivals.at(-1)?.atMs ?? 0) / 60_000)).toBe(published.minutes);
  expect(Math.round(meanOf(arrivals.map(({ promptTokens }) => promptTokens)))).toBe(
    published.prompt,
  );
  expect(Math.round(meanOf(arrivals.map(({ outputTokens }) => outputTokens)))).toBe(
    published.output,
  );
});
