import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodePrompt } from "../../../../gpu-backend/engine/tokenizer/encode-prompt.ts";
import { ChatTemplate } from "../../../../gpu-backend/engine/tokenizer/chat-template.ts";
import { Tokenizer } from "../../../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { cpuMillisecondsOf } from "../../../support/cpu-milliseconds.ts";
import { ordinaryText } from "./arbitrary-text.ts";
import {
  encodeAsLlama2,
  encodeAsLlama3,
  LLAMA_2_VECTORS,
  LLAMA_3_VECTORS,
  llama2File,
  llama3File,
} from "./public-tokenizers.ts";

const LLAMA_2 = new Tokenizer(llama2File());
const LLAMA_3 = new Tokenizer(llama3File());

const millisecondsFor = (count: number) => {
  const text = "several words of text, ".repeat(count);
  return cpuMillisecondsOf(() => expect(LLAMA_2.encodeText(text).length).toBeGreaterThan(count));
};

const metaspace = (prepend_scheme: string, split = false) =>
  new Tokenizer(
    llama2File({
      normalizer: null,
      pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme, split },
    }),
  );

/** Without the mark of a space, which no text of SentencePiece's tells from a space. */
const unmarkedText = ordinaryText.filter((text) => !text.includes("▁") && !text.includes("<"));

describe("the tokenizer of Llama 2", () => {
  test.each(LLAMA_2_VECTORS)("gives %j the published ids", (text, ids) => {
    expect(LLAMA_2.encodeText(text)).toEqual(ids);
    expect(LLAMA_2.decode(ids)).toBe(text);
  });

  test("gives any text the ids that the package gives it, and the text back", () => {
    fc.assert(
      fc.property(unmarkedText, (text) => {
        const ids = LLAMA_2.encodeText(text);
        expect(ids).toEqual(text === "" ? [] : encodeAsLlama2(text));
        expect(LLAMA_2.decode(ids)).toBe(text);
        expect(LLAMA_2.fewestTokens([text])).toBeLessThanOrEqual(ids.length);
      }),
      { numRuns: 300 },
    );
  });

  test("counts marks as the spaces that they become", () => {
    for (const text of ["▁".repeat(64), "▁a ▁b▁▁", "▁"]) {
      expect(LLAMA_2.fewestTokens([text])).toBeLessThanOrEqual(LLAMA_2.encodeText(text).length);
      expect(LLAMA_2.decode(LLAMA_2.encodeText(text))).toBe(text.replaceAll("▁", " "));
    }
  });

  test("writes no special token for text that looks like one, nor a byte", () => {
    const text = "<s></s><unk><0x41>";
    const ids = LLAMA_2.encodeText(text);
    expect(ids.filter((id) => id < 3 || id === 3 + 0x41)).toEqual([]);
    expect(LLAMA_2.decode(ids)).toBe(text);
  });

  test("takes ten times as long for ten times the text", () => {
    millisecondsFor(1000);
    // Whole, it took a hundred times as long; a noisy machine gets away with a few.
    expect(millisecondsFor(20_000)).toBeLessThan(60 * Math.max(millisecondsFor(2000), 2));
  });
});

describe("files of SentencePiece tokenizers", () => {
  test("say by Metaspace what others say by a normalizer", () => {
    const always = metaspace("always");
    // It adds no second space, unlike the normalizer.
    const vectors = LLAMA_2_VECTORS.filter(([text]) => !text.startsWith(" "));
    for (const [text, ids] of vectors) expect(always.encodeText(text)).toEqual(ids);
    expect(always.encodeText(" grabbed")).toEqual([2646, 1327, 287]);
  });

  test("may have a space before the first text only", () => {
    const first = metaspace("first");
    const [withSpace, without] = [[2646, 1327, 287], first.encodeText("grabbed", false)];
    expect(without).not.toEqual(withSpace);
    expect(first.encodePieces(["grabbed", 2, "grabbed"])).toEqual([...withSpace, 2, ...without]);
    expect(first.encodePieces([1, "grabbed"])).toEqual([1, ...without]);
    expect(LLAMA_2.encodePieces([1, "grabbed"])).toEqual([1, ...withSpace]);
    expect(metaspace("never").encodeText("grabbed")).toEqual(without);
    expect(metaspace("never").decode(without)).toBe("grabbed");
  });

  test("that split at every mark keep marks apart", () => {
    const apart = metaspace("always", true).encodeText("a   b");
    const together = metaspace("always", false).encodeText("a   b");
    expect(together.length).toBeLessThan(apart.length);
    expect(metaspace("always", true).decode(apart)).toBe("a   b");
  });

  test("with a token across words are encoded whole, to the same ids", () => {
    const file = llama2File();
    // No merge makes it, so it changes nothing but what may be assumed.
    const vocab = { ...file.model.vocab, "e▁t": 32_000 };
    const whole = new Tokenizer({ ...file, model: { ...file.model, vocab } });
    for (const [text, ids] of LLAMA_2_VECTORS) expect(whole.encodeText(text)).toEqual(ids);
  });

  test("have added tokens that are matched whole, and count as text", () => {
    const file = llama2File();
    const call = { id: 32_000, content: "<call>", special: false, normalized: false };
    const added = { ...call, lstrip: false, rstrip: false };
    const tokenizer = new Tokenizer({ ...file, added_tokens: [...file.added_tokens, added] });
    const ids = tokenizer.encodeText("grabbed<call>grabbed");
    expect(ids).toEqual([2646, 1327, 287, 32_000, 2646, 1327, 287]);
    expect(tokenizer.vocabularyTokens).toBe(32_001);
    expect(tokenizer.decode([32_000])).toBe("<call>");
  });

  test.each([
    [{ normalizer: { type: "NFKC" } }, "normalizer"],
    [{ pre_tokenizer: { type: "Whitespace" } }, "Metaspace"],
    [{ decoder: { type: "WordPiece" } }, "decoder"],
  ])("with %j are refused", (changes, named) => {
    expect(() => llama2File(changes)).toThrow(named);
  });

  test("without a token for each byte are refused", () => {
    const file = llama2File();
    const { "<0xFF>": _, ...vocab } = file.model.vocab;
    expect(() => new Tokenizer({ ...file, model: { ...file.model, vocab } })).toThrow(
      "Expected a token for each of 256 bytes, found 255",
    );
  });
});

describe("the tokenizer of Llama 3", () => {
  test.each(LLAMA_3_VECTORS)("gives %j the published ids", (text, ids) => {
    expect(LLAMA_3.encodeText(text)).toEqual(ids);
    expect(LLAMA_3.decode(ids)).toBe(text);
  });

  test("gives any text the ids that the package gives it, and the text back", () => {
    fc.assert(
      // A byte-order mark is white space to the package's JavaScript, and not to Meta's Rust.
      fc.property(
        unmarkedText.filter((text) => !text.includes("\uFEFF")),
        (text) => {
          const ids = LLAMA_3.encodeText(text);
          expect(ids).toEqual(encodeAsLlama3(text));
          expect(LLAMA_3.decode(ids)).toBe(text);
          expect(LLAMA_3.fewestTokens([text])).toBeLessThanOrEqual(ids.length);
        },
      ),
      { numRuns: 200 },
    );
  });
});

describe("the tokens that begin a text", () => {
  const tokens = { bos_token: "<s>", eos_token: "</s>", pad_token: "", unk_token: "" };
  const promptOf = (tokenizer: Tokenizer, template: string, bos = "<s>") => {
    const source = { template, tokens: { ...tokens, bos_token: bos } };
    const chatTemplate = new ChatTemplate(source, { tokenizer, contextTokens: 100 });
    const model = { tokenizer, chatTemplate, contextTokens: 100 };
    const prompt = encodePrompt(model, { kind: "text", text: "grabbed", param: "prompt" });
    return prompt.kind === "encoded" ? prompt.promptTokens : prompt.problem;
  };
  const PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}";

  test("are those of the tokenizer's file, whatever its place there", () => {
    expect(promptOf(LLAMA_2, PLAIN)).toEqual([1, 2646, 1327, 287]);
    expect(promptOf(LLAMA_3, PLAIN, "")).toEqual([128_000, 59312, 2788]);
  });

  test("are those of the tokenizer's file for a model without a template", () => {
    const model = { tokenizer: LLAMA_2, chatTemplate: undefined, contextTokens: 100 };
    expect(encodePrompt(model, { kind: "text", text: "grabbed", param: "prompt" })).toEqual({
      kind: "encoded",
      promptTokens: [1, 2646, 1327, 287],
    });
  });

  test("are those that the template asks for where the file says nothing", () => {
    const open = new Tokenizer(llama2File({ post_processor: null }));
    expect(promptOf(open, PLAIN)).toEqual([2646, 1327, 287]);
    expect(promptOf(open, `{{ bos_token }}${PLAIN}`)).toEqual([1, 2646, 1327, 287]);
  });

  test("are none where the file says so", () => {
    const single = [{ Sequence: { id: "A" } }];
    const none = new Tokenizer(
      llama2File({ post_processor: { type: "TemplateProcessing", single } }),
    );
    expect(promptOf(none, `{{ bos_token }}${PLAIN}`)).toEqual([2646, 1327, 287]);
  });
});
