import { expect, test } from "vitest";
import { toRowPlots } from "../../bench/techniques/row-plot.ts";

test("rows with a ratio are drawn, with what the curve says of all of them", () => {
  const rows = [
    {
      what: "chunks of 64",
      ours: "p99 of TBT 17.7 [16.4, 17.9] × shorter (298 → 17 ms)",
      predicted: "19.0 × shorter",
    },
    { what: "a share", ours: "80.7 % → 5.5 %" },
    { what: "chunks of 256", ours: "4.6 [4.6, 4.6] ×", predicted: "4.7 [4.5, 4.9]" },
  ];
  expect(toRowPlots("Chunks", rows)).toEqual([
    "",
    "```mermaid",
    "xychart-beta",
    '  title "Chunks: times as good (bars; line: by the step curve)"',
    '  x-axis ["chunks of 64", "chunks of 256"]',
    "  y-axis 0 --> 19",
    "  bar [17.7, 4.6]",
    "  line [19, 4.7]",
    "```",
  ]);
  const inMs = rows.map((row) => ({ ...row, predicted: "2.6 ms to compute" }));
  expect(toRowPlots("Chunks", inMs).join("\n")).not.toContain("line");
  expect(toRowPlots("Shares", [{ what: "a share", ours: "80.7 % → 5.5 %" }])).toEqual([]);
});

test("more rows than can be read have a chart for each of what they begin with", () => {
  const rows = ["copies", "free"].flatMap((text) =>
    Array.from({ length: 9 }, (_, k) => ({
      what: `${text}, K = ${k}`,
      ours: `1.${k} [1, 2] × off`,
    })),
  );
  const lines = toRowPlots("Guesses", rows);
  expect(lines.filter((line) => line.includes("title"))).toEqual([
    '  title "Guesses, copies: times as good (bars)"',
    '  title "Guesses, free: times as good (bars)"',
  ]);
  expect(lines.filter((line) => line.includes("x-axis"))[1]).toContain('"K = 0", "K = 1"');
});
