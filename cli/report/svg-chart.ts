import type { Markup } from "./html-page.ts";
import { markup } from "./html-page.ts";

/** One thing that a chart shows; points that are not finite are left out. */
interface Series {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Chart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly series: readonly Series[];
  /** Dots alone, where points have no order. */
  readonly isScattered?: boolean;
  /** Logarithmic heights: for what runs over orders of magnitude. */
  readonly isLogarithmic?: boolean;
}

const WIDTH = 760;
const HEIGHT = 300;
const LEFT = 64;
const RIGHT = 150;
const TOP = 28;
const BOTTOM = 44;
const TICKS = 5;
/** More cannot be told apart, and make a page of megabytes. */
const POINTS_MAX = 2_000;
/** A line with more points than this looks better without dots on it. */
const DOTS_MAX = 60;
/** Told apart by those who do not see all colours (Okabe and Ito, 2008). */
const COLOURS = [
  "#0072b2",
  "#d55e00",
  "#009e73",
  "#cc79a7",
  "#e69f00",
  "#56b4e9",
  "#7f7f7f",
  "#000000",
];

/** Places a value on the picture, in its own units. */
type Scale = (value: number) => number;

/** Where things lie: both scales, and what they span. */
interface Frame {
  readonly x: Scale;
  readonly y: Scale;
  readonly xTicks: readonly number[];
  readonly yTicks: readonly number[];
}

/** Draws a chart as SVG. */
export function svgChart(chart: Chart): Markup {
  const { title, series, isScattered = false, isLogarithmic = false } = chart;
  const shown = series.map(({ name, points }) => ({
    name,
    points: thinned(points.filter(([x, y]) => isShown(x, y, isLogarithmic))),
  }));
  const frame = frameOf(
    shown.flatMap(({ points }) => points),
    isLogarithmic,
  );
  const lines = shown.map(({ points }, index) =>
    drawn(points, { frame, colour: colourOf(index), isScattered }),
  );
  return markup`<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" role="img" aria-label="${title}">
<text x="${LEFT}" y="16" font-weight="600">${title}</text>
${axes(frame, chart)}${lines}${legend(shown)}</svg>
`;
}

function frameOf(points: readonly (readonly [number, number])[], isLogarithmic: boolean): Frame {
  const [xMin, xMax] = spanOf(
    points.map(([x]) => x),
    0,
  );
  const [yMin, yMax] = spanOf(
    points.map(([, y]) => y),
    isLogarithmic ? undefined : 0,
  );
  const height: Scale = (value) => (isLogarithmic ? Math.log(value) : value);
  const heightSpan = height(yMax) - height(yMin);
  return {
    x: (value) => LEFT + ((value - xMin) / (xMax - xMin)) * (WIDTH - LEFT - RIGHT),
    y: (value) =>
      HEIGHT - BOTTOM - ((height(value) - height(yMin)) / heightSpan) * (HEIGHT - TOP - BOTTOM),
    xTicks: ticksOf(xMin, xMax, false),
    yTicks: ticksOf(yMin, yMax, isLogarithmic),
  };
}

function axes({ x, y, xTicks, yTicks }: Frame, { xLabel, yLabel }: Chart): Markup {
  const below = xTicks.map(
    (tick) =>
      markup`<text x="${at(x(tick))}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${short(tick)}</text>\n`,
  );
  const beside = yTicks.map(
    (
      tick,
    ) => markup`<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at(y(tick))}" y2="${at(y(tick))}" stroke="#8886"/>
<text x="${LEFT - 6}" y="${at(y(tick) + 4)}" text-anchor="end">${short(tick)}</text>
`,
  );
  return markup`${below}${beside}<text x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 8}" text-anchor="middle">${xLabel}</text>
<text x="${LEFT}" y="${TOP - 2}" text-anchor="end">${yLabel}</text>
`;
}

function legend(shown: readonly Series[]): Markup {
  const x = WIDTH - RIGHT + 12;
  const entries = shown.map(
    (
      { name },
      index,
    ) => markup`<rect x="${x}" y="${TOP + index * 18}" width="10" height="10" fill="${colourOf(index)}"/>
<text x="${x + 16}" y="${TOP + 9 + index * 18}">${name}</text>
`,
  );
  return markup`${entries}`;
}

function drawn(
  points: readonly (readonly [number, number])[],
  look: { readonly frame: Frame; readonly colour: string; readonly isScattered: boolean },
): Markup {
  const { frame, colour, isScattered } = look;
  const placed = points.map(([x, y]) => [at(frame.x(x)), at(frame.y(y))] as const);
  const dots = placed.map(
    ([x, y]) =>
      markup`<circle cx="${x}" cy="${y}" r="${isScattered ? 1.6 : 2.4}" fill="${colour}"/>`,
  );
  if (isScattered) return markup`${dots}\n`;
  const path = placed.map(([x, y]) => `${x},${y}`).join(" ");
  const line = markup`<polyline points="${path}" fill="none" stroke="${colour}" stroke-width="1.8"/>`;
  return points.length > DOTS_MAX ? markup`${line}\n` : markup`${line}${dots}\n`;
}

function isShown(x: number, y: number, isLogarithmic: boolean): boolean {
  return Number.isFinite(x) && Number.isFinite(y) && (!isLogarithmic || y > 0);
}

/** Every n-th, so that they lie as all of them do. */
function thinned<Point>(points: readonly Point[]): readonly Point[] {
  const every = Math.ceil(points.length / POINTS_MAX);
  return every <= 1 ? points : points.filter((_, index) => index % every === 0);
}

function spanOf(values: readonly number[], from: number | undefined): [number, number] {
  let min = from ?? Infinity;
  let max = -Infinity;
  for (const value of values) {
    min = Math.min(min, value);
    max = Math.max(max, value);
  }
  if (!Number.isFinite(min) || !Number.isFinite(max)) return [1, 2];
  return max > min ? [min, max] : [min, min + Math.max(1, Math.abs(min))];
}

function ticksOf(min: number, max: number, isLogarithmic: boolean): number[] {
  if (isLogarithmic) {
    const first = Math.ceil(Math.log10(min));
    const last = Math.floor(Math.log10(max));
    const decades = Array.from(
      { length: Math.max(0, last - first + 1) },
      (_, n) => 10 ** (first + n),
    );
    return decades.length > 0 ? decades : [min, max];
  }
  const raw = (max - min) / TICKS;
  const decade = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * decade).find((size) => size >= raw) ?? raw;
  const ticks: number[] = [];
  for (let tick = Math.ceil(min / step) * step; tick <= max + step / 1e6; tick += step)
    ticks.push(tick);
  return ticks;
}

const colourOf = (index: number) => COLOURS[index % COLOURS.length] ?? "#000";
const at = (value: number) => Number(value.toFixed(1));
const short = (value: number) => String(Number(value.toPrecision(3)));
