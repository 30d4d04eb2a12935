/** A piece of a page that is safe to put in as it is. */
export interface Markup {
  readonly source: string;
}

type Inserted = string | number | Markup | readonly Markup[];

/** Writes markup; whatever is put in is text, unless it is markup itself. Lists are put in one after another. */
export function markup(parts: TemplateStringsArray, ...values: readonly Inserted[]): Markup {
  let source = parts[0] ?? "";
  for (const [index, value] of values.entries()) {
    source += sourceOf(value) + (parts[index + 1] ?? "");
  }
  return { source };
}

const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1c1e21; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #dde1e6; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
.warning { background: #fff4d6; border-left: 4px solid #d99a00; padding: .5rem .8rem }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #1c1e21 }
@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e4e6ea } svg text { fill: #e4e6ea } th, td { border-color: #3a3f47 } .warning { background: #3a3115 } }`;

/** Returns a whole page that needs nothing but itself: no script, no font, no picture from anywhere. */
export function htmlPage(title: string, sections: readonly Markup[]): string {
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${title}</title>
<style>${{ source: STYLE }}</style>
</head>
<body>
<h1>${title}</h1>
${sections}
</body>
</html>
`.source;
}

/** Lays rows out as a table; the first one is its head. */
export function htmlTable(rows: readonly (readonly string[])[]): Markup {
  const [head = [], ...body] = rows;
  const heads = head.map((cell) => markup`<th>${cell}</th>`);
  const lines = body.map(
    (row) => markup`<tr>${row.map((cell) => markup`<td>${cell}</td>`)}</tr>\n`,
  );
  return markup`<table><thead><tr>${heads}</tr></thead>\n<tbody>${lines}</tbody></table>\n`;
}

function sourceOf(value: Inserted): string {
  if (typeof value === "object") {
    return "source" in value ? value.source : value.map(({ source }) => source).join("");
  }
  return String(value)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}
