import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tokenBytesOf } from "../../../../gpu-backend/engine/tokenizer/token-bytes.ts";
import {
  readChatTemplateSource,
  readTokenizerFile,
} from "../../../../gpu-backend/engine/tokenizer/tokenizer-files.ts";
import { loadTokenizer } from "../../../../gpu-backend/engine/tokenizer/tokenizer.ts";
import { BUNDLED_MODEL, bundledTokenizerJson } from "./bundled-model.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-tokenizer-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

const write = (name: string, content: unknown) => {
  const text = typeof content === "string" ? content : JSON.stringify(content);
  writeFileSync(join(folder, name), text);
};

describe("readTokenizerFile", () => {
  test("the bundled tokenizer is served", async () => {
    const file = await readTokenizerFile(BUNDLED_MODEL);
    expect(Object.keys(file.model.vocab)).toHaveLength(4096);
    expect(file.added_tokens.every((token) => token.special)).toBe(true);
  });

  test("a missing file is named", async () => {
    await expect(readTokenizerFile(folder)).rejects.toThrow(
      `Cannot read ${join(folder, "tokenizer.json")}: ENOENT`,
    );
  });

  test("a file that is no JSON is named", async () => {
    write("tokenizer.json", "{");
    await expect(readTokenizerFile(folder)).rejects.toThrow(
      `Cannot read ${join(folder, "tokenizer.json")}: Expected property name`,
    );
  });

  type Json = ReturnType<typeof bundledTokenizerJson>;
  test.each<[string, (json: Json) => void, RegExp]>([
    [
      "a SentencePiece decoder",
      (json) => (json.decoder = { type: "Metaspace" }),
      /Only the decoder "ByteLevel" is supported, found {"type":"Metaspace"}\n\s*→ at decoder/,
    ],
    ["no decoder", (json) => (json.decoder = null), /"ByteLevel" is supported, found null/],
    [
      "another model than BPE",
      (json) => (json.model.type = "Unigram"),
      /Only the model "BPE" is supported, found "Unigram"\n\s*→ at model.type/,
    ],
    [
      "a normalizer that loses bytes",
      (json) => (json.normalizer = { type: "Lowercase" }),
      /Only the normalizer "NFC" is supported, found {"type":"Lowercase"}/,
    ],
    [
      "a pre-tokenizer that drops what it splits at",
      (json) =>
        (json.pre_tokenizer = {
          type: "Sequence",
          pretokenizers: [{ type: "Split", behavior: "Removed", invert: false }],
        }),
      /Only a pre-tokenizer of "ByteLevel", "Digits" and "Split" .* found .*"Removed"/,
    ],
    [
      "a pre-tokenizer that splits by nothing, which would leave nothing",
      (json) =>
        (json.pre_tokenizer = {
          type: "Sequence",
          pretokenizers: [{ type: "Split", behavior: "Isolated", invert: false }],
        }),
      /"Split" \(isolated, not inverted, by a pattern\) is supported, found .*"Split"/,
    ],
    [
      "a pattern that may never end",
      (json) =>
        (json.pre_tokenizer = {
          type: "Split",
          behavior: "Isolated",
          invert: false,
          pattern: { Regex: "(\\p{L}+)+!" },
        }),
      /Only patterns whose work is bounded are supported, found a group that is repeated in "\(.*\n\s*→ at pre_tokenizer/,
    ],
    [
      "a suffix of words",
      (json) => (json.model.end_of_word_suffix = "</w>"),
      /Only no affix of words is supported, found "<\/w>"/,
    ],
    ["ids that are no integers", (json) => (json.model.vocab["a"] = 0.5), /object of token ids/],
    ["an id of a million", (json) => (json.model.vocab["a"] = 2 ** 20), /object of token ids/],
    [
      "an added token with an id of a million",
      (json) => json.added_tokens.push({ id: 2 ** 20, content: "a" }),
      /expected number to be <1048576/,
    ],
  ])("%s is refused by name", async (_, alter, message) => {
    const json = bundledTokenizerJson();
    alter(json);
    write("tokenizer.json", json);
    await expect(readTokenizerFile(folder)).rejects.toThrow(message);
  });

  test("the largest id makes the largest table that there is", async () => {
    const json = bundledTokenizerJson();
    json.added_tokens.push({ id: 2 ** 20 - 1, content: "a" });
    write("tokenizer.json", json);
    expect(tokenBytesOf(await readTokenizerFile(folder)).vocabularyTokens).toBe(2 ** 20);
  });

  test("a file larger than any is not read", async () => {
    write("tokenizer.json", "");
    truncateSync(join(folder, "tokenizer.json"), 2 ** 27 + 1);
    await expect(readTokenizerFile(folder)).rejects.toThrow(
      `Cannot read ${join(folder, "tokenizer.json")}: expected a file of at most 134217728 bytes, found 134217729`,
    );
  });

  test("a pattern that is none is refused with the path", async () => {
    const json = bundledTokenizerJson();
    const pattern = { Regex: "[z-a]" };
    json.pre_tokenizer = { type: "Split", behavior: "Isolated", invert: false, pattern };
    write("tokenizer.json", json);
    await expect(loadTokenizer(folder)).rejects.toThrow(
      `Cannot use ${join(folder, "tokenizer.json")}: Invalid regular expression`,
    );
  });

  test("all that is wrong is told at once, with the path", async () => {
    const json = bundledTokenizerJson();
    json.decoder = { type: "WordPiece" };
    json.model.type = "WordPiece";
    write("tokenizer.json", json);
    const failure: unknown = await readTokenizerFile(folder).catch((error: unknown) => error);
    expect(String(failure)).toContain(`Cannot use ${join(folder, "tokenizer.json")}`);
    expect(String(failure)).toContain("→ at model.type");
    expect(String(failure)).toContain("→ at decoder");
  });

  test("a token named __proto__ is a token like any other", async () => {
    const json = bundledTokenizerJson();
    const text = JSON.stringify(json).replace('"vocab":{', '"vocab":{"__proto__":4096,');
    write("tokenizer.json", text);
    const file = await readTokenizerFile(folder);
    expect(Object.entries(file.model.vocab)).toContainEqual(["__proto__", 4096]);
  });
});

describe("readChatTemplateSource", () => {
  test("the bundled template comes with its tokens", async () => {
    const { template, tokens } = (await readChatTemplateSource(BUNDLED_MODEL)) ?? {};
    expect(template).toContain("add_generation_prompt");
    expect(tokens).toEqual({
      bos_token: "<|bos|>",
      eos_token: "<|end|>",
      pad_token: "<|eos|>",
      unk_token: "",
    });
  });

  test("a token may be an object with its text", async () => {
    write("tokenizer_config.json", { chat_template: "x", bos_token: { content: "<s>" } });
    expect((await readChatTemplateSource(folder))?.tokens.bos_token).toBe("<s>");
  });

  test("of several templates the one named default counts", async () => {
    const chat_template = [
      { name: "tool_use", template: "tools" },
      { name: "default", template: "chat" },
    ];
    write("tokenizer_config.json", { chat_template });
    expect((await readChatTemplateSource(folder))?.template).toBe("chat");
  });

  test("a template in a file of its own wins", async () => {
    write("tokenizer_config.json", { chat_template: "old" });
    write("chat_template.jinja", "new");
    expect((await readChatTemplateSource(folder))?.template).toBe("new");
  });

  test("a template or a configuration larger than any is not read", async () => {
    write("tokenizer_config.json", {});
    for (const [name, bytesMax] of [
      ["chat_template.jinja", 2 ** 20],
      ["tokenizer_config.json", 2 ** 24],
    ] as const) {
      write(name, "");
      truncateSync(join(folder, name), bytesMax + 1);
      await expect(readChatTemplateSource(folder)).rejects.toThrow(
        `Cannot read ${join(folder, name)}: expected a file of at most ${bytesMax} bytes`,
      );
    }
  });

  test("a model may have none", async () => {
    write("tokenizer_config.json", { bos_token: null });
    expect(await readChatTemplateSource(folder)).toBeUndefined();
  });
});
