import { describe, expect, test } from "vitest";
import { htmlPage, htmlTable, markup } from "../../cli/report/html-page.ts";
import { svgChart } from "../../cli/report/svg-chart.ts";

const CHART = { title: "t", xLabel: "x", yLabel: "y" };

describe("markup", () => {
  test("takes what is put in for text, and markup for markup", () => {
    const cell = markup`<b>${`"<i>&'`}</b>`;
    expect(cell.source).toBe("<b>&quot;&lt;i&gt;&amp;&#39;</b>");
    expect(markup`${[cell, cell]}`.source).toBe(cell.source.repeat(2));
    expect(htmlTable([["<a>"], ["<td>"]]).source).not.toMatch(/<a>|<td><td>/);
    expect(htmlPage("</title><script>", []).toLowerCase()).not.toContain("<script");
  });
});

const numbersOf = (source: string) =>
  [...source.matchAll(/c[xy]="([^"]*)"/g)].map(([, value]) => Number(value));

describe("svgChart()", () => {
  test("draws every point inside the picture, and leaves out what is no number", () => {
    const points = [
      [0, 5],
      [1, NaN],
      [2, Infinity],
      [3, 10],
    ] as const;
    const { source } = svgChart({ ...CHART, series: [{ name: "<s>", points }] });
    expect(numbersOf(source)).toHaveLength(4);
    expect(numbersOf(source).every((value) => value >= 0 && value <= 760)).toBe(true);
    expect(source).not.toContain("NaN");
    expect(source).not.toContain("<s>");
  });

  test.each([
    ["nothing", []],
    ["one point", [[3, 7] as const]],
    ["equal heights", [[0, 5] as const, [1, 5] as const]],
    ["a zero on a logarithmic scale", [[0, 0] as const, [1, 5] as const]],
  ])("draws %s", (_name, points) => {
    const series = [{ name: "s", points }];
    for (const isLogarithmic of [false, true]) {
      const { source } = svgChart({ ...CHART, series, isLogarithmic });
      expect(source).not.toMatch(/NaN|Infinity/);
    }
  });

  test("draws at most some thousand points of a million", () => {
    const points = Array.from({ length: 100_000 }, (_, index) => [index, index % 7] as const);
    const { source } = svgChart({ ...CHART, series: [{ name: "s", points }], isScattered: true });
    expect(numbersOf(source).length).toBeLessThanOrEqual(4_000);
  });
});
