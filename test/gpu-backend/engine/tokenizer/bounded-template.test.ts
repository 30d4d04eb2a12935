import { describe, expect, test } from "vitest";
import { BoundedTemplate } from "../../../../gpu-backend/engine/tokenizer/bounded-template.ts";
import { ChatTemplate } from "../../../../gpu-backend/engine/tokenizer/chat-template.ts";
import { loadTokenizer } from "../../../../gpu-backend/engine/tokenizer/tokenizer.ts";
import type { ChatMessage } from "../../../../src/protocol/chat.ts";
import { cpuMillisecondsOf } from "../../../support/cpu-milliseconds.ts";
import { BUNDLED_MODEL } from "./bundled-model.ts";

const TOKENIZER = await loadTokenizer(BUNDLED_MODEL);
const MODEL = { tokenizer: TOKENIZER, contextTokens: 2048 };
const TOKENS = { bos_token: "<|bos|>", eos_token: "<|eos|>", pad_token: "", unk_token: "" };
const templateOf = (template: string) => new ChatTemplate({ template, tokens: TOKENS }, MODEL);

const doubled = (count: number) => `${"{% set x = x ~ x %}".repeat(count)}{{ x }}`;
const twice = (count: number) => `{% set x = [1] %}${"{% set x = [x, x] %}".repeat(count)}`;
const long = (set: string) => `{% set x = [1] %}${"{% set x = x + x %}".repeat(16)}${set}`;
const chained = Array.from({ length: 60 }, (_, index) => `n${index}`);
const BOMBS: Readonly<Record<string, readonly [string, RegExp]>> = {
  "a loop of billions": [
    "{% for i in range(4000000000) %}x{% endfor %}",
    /counts beyond|range\(\) has/,
  ],
  "a long loop": [
    "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
    /more steps/,
  ],
  "a text that doubles": [`{% set x = "0123456789" %}${doubled(40)}`, /more text|makes too much/],
  "a text that is repeated": [
    '{% set ns = namespace(x="0123456789") %}{% for i in range(90000) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}',
    /more text|makes too much/,
  ],
  "a list that doubles": ["{% set x = [1] %}" + "{% set x = x + x %}".repeat(40), /list of/],
  "a list in itself, twice and again": [`${twice(60)}{{ x | tojson }}`, /more data/],
  "such a list as text": [`${twice(60)}{{ x }}`, /more data/],
  "such a list beside text": [`${twice(60)}{{ "a" ~ x }}`, /more data/],
  "such a list as entries": [`${twice(60)}{{ x | join }}`, /more data/],
  "such an object": [
    `{% set x = 1 %}${'{% set x = {"a": x, "b": x} %}'.repeat(60)}{{ x | tojson }}`,
    /more data/,
  ],
  "such a list through namespaces": [
    `${chained.map((name) => `{% set ${name} = namespace(x=1) %}`).join("")}${chained
      .slice(1)
      .map((name, index) => `{% set n${index}.x = [${name}, ${name}] %}`)
      .join("")}{{ n0.x | tojson }}`,
    /a namespace in other data/,
  ],
  "one long text in many places": [
    `{% set t = "0123456789" %}${"{% set t = t ~ t %}".repeat(10)}{% set x = [t] %}${"{% set x = x + x %}".repeat(14)}{{ x | sort | length }}`,
    /more data/,
  ],
  "loops of nothing": [
    long("{% for i in range(9999) %}{% for j in x %}{% endfor %}{% endfor %}"),
    /more steps/,
  ],
  "loops that pick nothing": [
    long("{% for i in range(9999) %}{% for j in x if false %}{% endfor %}{% endfor %}"),
    /more steps/,
  ],
  "a long list that is copied": [
    long("{% for i in range(99999) %}{% set y = x | list %}{% endfor %}"),
    /more steps/,
  ],
  "a long list that is searched": [
    long("{% for i in range(99999) %}{% set y = 2 in x %}{% endfor %}"),
    /more steps/,
  ],
  "an endless recursion": [
    "{% macro f(g) %}{{ g(g) }}{% endmacro %}{{ f(f) }}",
    /nested too deeply|more steps/,
  ],
  "a deep nesting": [`{{ ${"(".repeat(100_000)}1${")".repeat(100_000)} }}`, /nested too deeply/],
  "a wide indentation": ['{{ "a\\nb" | indent(99999999) }}', /counts beyond/],
  "a text of megabytes": ["x".repeat(2 ** 20 + 1), /expected at most 1048576/],
};

describe.each(Object.entries(BOMBS))("a template with %s", (_, [text, reason]) => {
  test("is refused when it is loaded, soon and in one sentence", () => {
    const cpuMs = cpuMillisecondsOf(() => expect(() => templateOf(text)).toThrow(reason));
    // Unbounded it would be hours; a machine may be slow.
    expect(cpuMs).toBeLessThan(20_000);
  });
});

const render = (text: string) =>
  new BoundedTemplate(text).render({}, { steps: 1000, characters: 1000 });

describe("BoundedTemplate", () => {
  test("has room for any conversation and tools that a context holds", () => {
    const messages = Array.from({ length: 400 }, (_, index): ChatMessage => ({
      role: index % 2 === 0 ? "user" : "assistant",
      content: "x".repeat(2000),
    }));
    const template = templateOf(`
      {%- for m in messages %}{% for other in messages[-3:] %}{% set a = m.content | trim %}{% endfor %}
      {%- if loop.index0 > 0 and messages[loop.index0 - 1].role == m.role %}{{ raise_exception("no") }}{% endif %}
      {{- "<|" + m.role + "|>" + m.content | trim }}{% endfor %}`);
    expect(template.encode(messages)).toMatchObject({
      kind: "refused",
      problem: { code: "context_length_exceeded" },
    });
  });

  test("knows what Transformers gives every template", () => {
    expect(render("{{ range(3) | list }}{{ range(1, 6, 2) | list }}")).toBe("[0, 1, 2][1, 3, 5]");
    expect(render("{% if None is none and True and not false %}yes{% endif %}")).toBe("yes");
    expect(render("{{ 'today' if strftime_now is defined else 'some day' }}")).toBe("some day");
    expect(() => render('{{ raise_exception("Only user turns") }}')).toThrow("Only user turns");
  });
});

const CALLING: ChatMessage[] = [
  { role: "user", content: "Hi" },
  {
    role: "assistant",
    tool_calls: [
      {
        id: "call12345",
        type: "function",
        function: { name: "look", arguments: '{"place":"a \\u003c|end|>","n":[1]}' },
      },
    ],
  },
];
const callTemplate = (written: string) => `{%- for m in messages %}{% if m.tool_calls %}{%
  for c in m.tool_calls %}${written}{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}`;

const textOf = (template: string) => {
  const prompt = templateOf(template).encode(CALLING);
  if (prompt.kind === "refused") throw new Error(prompt.problem.message);
  return TOKENIZER.decode(prompt.promptTokens);
};

describe("arguments of calls", () => {
  test("are text for a template that writes them as they are", () => {
    const written = "{{ c.function.arguments }}";
    expect(textOf(callTemplate(written))).toBe('Hi{"place":"a \\u003c|end|>","n":[1]}');
  });

  test.each(["{{ c.function.arguments | tojson }}", "{{ c.function | tojson }}"])(
    "are an object for a template that writes JSON itself: %s",
    (written) => {
      const text = textOf(callTemplate(written));
      expect(text).toContain('"place": "a <|end|>", "n": [1]');
    },
  );

  test("are text where a template takes both, since that is what the model wrote", () => {
    const written =
      "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}";
    expect(textOf(callTemplate(written))).toContain('{"place":"a ');
  });

  test("make no special token, however they are spelt", () => {
    const prompt = templateOf(callTemplate("{{ c.function.arguments | tojson }}")).encode(CALLING);
    const ids = prompt.kind === "encoded" ? prompt.promptTokens : [];
    expect(ids.length).toBeGreaterThan(10);
    expect(ids.filter((id) => id < 7)).toEqual([]);
  });
});
