import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { seededRandom } from "../../../src/base/random.ts";
import { linesOf } from "../../../simulator/traces/lines.ts";
import type { ServeGenOptions } from "../../../simulator/traces/servegen-workload.ts";
import { serveGenWorkload } from "../../../simulator/traces/servegen-workload.ts";
import {
  serveGenClients,
  serveGenLengths,
  serveGenWindows,
} from "../../../simulator/traces/servegen.ts";
import { QUANTILE_LEVELS } from "../../../simulator/workloads/length-table.ts";
import { shareOf } from "../../../simulator/workloads/tenant-mix.ts";
import { generateArrivals } from "../../../simulator/workloads/workload.ts";
import { sharedTraces } from "../shared-traces.ts";

const WINDOWS = [
  "client,t,rate,cv,pattern,shape,scale",
  "a,0,2,1.5,Gamma,0.4,1.1",
  "a,600,0,0,,0,0",
  "a,1200,4,3,Weibull,0.5,0.2",
  "b,0,1,1,Gamma,1,1",
  "b,600,1,1,Gamma,1,1",
  "b,1200,1,1,Gamma,1,1",
  "c,0,9,1,Gamma,1,1",
];
const rising = (from: number) => QUANTILE_LEVELS.map((_, index) => from + index);
const lengthsText = (clients: object, levels: readonly number[] = QUANTILE_LEVELS) =>
  JSON.stringify({ quantile_levels: levels, clients });
const LENGTHS = serveGenLengths(
  lengthsText({
    a: { input_tokens: rising(100), output_tokens: rising(10) },
    b: { input_tokens: rising(200), output_tokens: rising(20) },
    image: { output_tokens: rising(10) },
  }),
);
const OPTIONS: ServeGenOptions = {
  fromMs: 0,
  untilMs: 1_800_000,
  tenantsMax: 10,
  rateFactor: 1,
  contract: { share: shareOf(1, 10), targets: {}, prefixes: { groups: 1, promptRatio: 0 } },
};

test("a window has its rate, and the shape of its gaps where it has requests", () => {
  expect([...serveGenWindows(WINDOWS.slice(0, 4))]).toEqual([
    { client: "a", atMs: 0, perSecond: 2, intervals: { kind: "gamma", cv: 1.5 } },
    { client: "a", atMs: 600_000, perSecond: 0 },
    { client: "a", atMs: 1_200_000, perSecond: 4, intervals: { kind: "weibull", cv: 3 } },
  ]);
  const pareto = [...WINDOWS.slice(0, 1), "a,0,2,1.5,Pareto,0.4,1.1"];
  expect(() => [...serveGenWindows(pareto)]).toThrow(
    'Line 2: expected Gamma, Weibull or nothing as pattern, found "Pareto"',
  );
});

test("a client has its mean and its peak", () => {
  const lines = ["model,client,rate_mean,rate_max", "m-small,5,350.87,914.03"];
  expect([...serveGenClients(lines)]).toEqual([
    { client: "5", meanPerSecond: 350.87, peakPerSecond: 914.03 },
  ]);
});

test("lengths are one row of answers for each client whose prompts were counted", () => {
  expect([...LENGTHS.keys()]).toEqual(["a", "b"]);
  expect(LENGTHS.get("b")).toEqual({
    promptTokens: rising(200),
    outputTokensByPrompt: [rising(20)],
  });
});

test.each([
  [lengthsText({}, [0, 0.5, 1]), "quantile_levels 0, 0.01"],
  [JSON.stringify({ quantile_levels: QUANTILE_LEVELS }), "an object as clients, found nothing"],
  [lengthsText({ a: { input_tokens: [1, 2] } }), "16 rising numbers as input_tokens of client a"],
  [
    lengthsText({ a: { input_tokens: rising(1), output_tokens: rising(1).toReversed() } }),
    "16 rising numbers as output_tokens of client a",
  ],
])("lengths %s are an error that says what was expected", (text, expected) => {
  expect(() => serveGenLengths(text)).toThrow(`expected ${expected}`);
});

test("a workload follows each client's windows and ends with the recording", () => {
  const workload = serveGenWorkload(serveGenWindows(WINDOWS), LENGTHS, OPTIONS);
  expect(workload.tenants.map(({ profile }) => profile.name)).toEqual(["client-a", "client-b"]);
  const counts = [0, 0, 0, 0];
  for (const { atMs, tenantIndex } of generateArrivals(workload, seededRandom(1), 2_400_000)) {
    const window = Math.floor(atMs / 600_000);
    if (tenantIndex === 0) counts[window] = (counts[window] ?? 0) + 1;
  }
  // CV 3: five standard deviations of 1,200 and 2,400 requests are about 520 and 735.
  expect(Math.abs((counts[0] ?? 0) - 1200)).toBeLessThan(520);
  expect(counts[1]).toBe(0);
  expect(Math.abs((counts[2] ?? 0) - 2400)).toBeLessThan(735);
  expect(counts[3]).toBe(0);
});

test("a workload takes the part, the tenants and the scale that are asked for", () => {
  const part = { ...OPTIONS, fromMs: 1_200_000, tenantsMax: 1, rateFactor: 0.5 };
  const { tenants } = serveGenWorkload(serveGenWindows(WINDOWS), LENGTHS, part);
  expect(tenants).toHaveLength(1);
  expect(tenants[0]).toMatchObject({
    startsPerSecond: 2,
    profile: { name: "client-a", intervals: { kind: "weibull", cv: 3 } },
    rateShapes: [
      {
        steps: [
          { untilMs: 600_000, factor: 1 },
          { untilMs: Infinity, factor: 0 },
        ],
      },
    ],
  });
});

test.for([
  { name: "m-large", clients: 162, withLengths: 147, windows: 326_592, perSecond: 196 },
  { name: "m-mid", clients: 109, withLengths: 74, windows: 219_744, perSecond: 1790 },
  { name: "m-small", clients: 43, withLengths: 38, windows: 86_688, perSecond: 1174 },
  { name: "deepseek-r1", clients: 73, withLengths: 73, windows: 10_512, perSecond: 16 },
  { name: "mm-image", clients: 35, withLengths: 0, windows: 5040, perSecond: 9.5 },
])(
  "the public $name recording has its published clients, windows and rate",
  (published, context) => {
    const path = join(sharedTraces(context), "servegen", published.name);
    expect([...serveGenClients(linesOf(`${path}-clients.csv`))]).toHaveLength(published.clients);
    const lengths = serveGenLengths(readFileSync(`${path}-token-quantiles.json`, "utf8"));
    expect(lengths.size).toBe(published.withLengths);
    let windows = 0;
    let rateSum = 0;
    for (const { perSecond } of serveGenWindows(linesOf(`${path}-rates.csv.gz`))) {
      windows += 1;
      rateSum += perSecond;
    }
    expect(windows).toBe(published.windows);
    const perSecond = rateSum / (windows / published.clients);
    expect(Math.abs(perSecond / published.perSecond - 1)).toBeLessThan(0.03);
  },
);
