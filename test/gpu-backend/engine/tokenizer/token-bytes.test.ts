import { describe, expect, test } from "vitest";
import {
  byteLevelTokenBytes,
  TokenBytes,
} from "../../../../gpu-backend/engine/tokenizer/token-bytes.ts";
import { TokenizerFile } from "../../../../gpu-backend/engine/tokenizer/tokenizer-files.ts";
import { bundledTokenizerJson } from "./bundled-model.ts";

const utf8 = (text: string) => new TextEncoder().encode(text);

const bytesOfAll = (...texts: readonly string[]) =>
  new TokenBytes(new Map(texts.map((text, id) => [id, utf8(text)])));

describe("TokenBytes", () => {
  test("gives each token's bytes, and none for ids without a token", () => {
    const bytes = new TokenBytes(
      new Map([
        [4, utf8("four")],
        [1, utf8("é")],
        [2, new Uint8Array()],
      ]),
    );
    expect(bytes.vocabularyTokens).toBe(5);
    expect([0, 1, 2, 3, 4, 5, -1, 1e9].map((id) => Buffer.from(bytes.of(id)).toString())).toEqual([
      "",
      "é",
      "",
      "",
      "four",
      "",
      "",
      "",
    ]);
  });

  test("equal others only where each id means the same", () => {
    const bytes = bytesOfAll("ab", "c", "");
    expect(bytes.equals(bytesOfAll("ab", "c", ""))).toBe(true);
    for (const others of [
      ["a", "bc", ""],
      ["ab", "d", ""],
      ["ab", "c"],
      ["ab", "c", "", ""],
    ]) {
      expect(bytes.equals(bytesOfAll(...others))).toBe(false);
    }
  });
});

describe("byteLevelTokenBytes", () => {
  test("every byte is a token, and merged tokens are made of theirs", () => {
    const json = bundledTokenizerJson();
    const bytes = byteLevelTokenBytes(TokenizerFile.parse(json));
    const bytesOf = (token: string) => Buffer.from(bytes.of(json.model.vocab[token] ?? -1));
    const singles = Array.from({ length: bytes.vocabularyTokens }, (_, id) => bytes.of(id)).filter(
      (single) => single.length === 1,
    );
    expect(new Set(singles.map(([byte]) => byte)).size).toBe(256);
    expect(bytesOf("ĠThe").toString()).toBe(" The");
    expect(bytesOf("Ċ").toString()).toBe("\n");
    expect(bytesOf("ä½łåı«ä»Ģä¹ĪåĲįåŃĹ").toString()).toBe("你叫什么名字");
  });

  test("special tokens have no bytes, other added tokens those of their text", () => {
    const json = bundledTokenizerJson();
    json.added_tokens.push({ id: 4096, content: "<think>" });
    json.added_tokens.push({ id: 4097, content: "naïve 你" });
    const bytes = byteLevelTokenBytes(TokenizerFile.parse(json));
    expect(bytes.of(5)).toHaveLength(0);
    expect(Buffer.from(bytes.of(4096)).toString()).toBe("<think>");
    expect(Buffer.from(bytes.of(4097)).toString()).toBe("naïve 你");
  });

  test("a token with a character that means no byte stands for its text", () => {
    const json = bundledTokenizerJson();
    json.model.vocab["你好"] = 4096;
    const bytes = byteLevelTokenBytes(TokenizerFile.parse(json));
    expect(Buffer.from(bytes.of(4096)).toString()).toBe("你好");
  });

  test("a vocabulary that lacks a byte is refused, because some text would be lost", () => {
    const lacking = bundledTokenizerJson();
    delete lacking.model.vocab["a"];
    const special = bundledTokenizerJson();
    special.added_tokens.push({
      id: Number(special.model.vocab["a"]),
      content: "a",
      special: true,
    });
    for (const json of [lacking, special]) {
      expect(() => byteLevelTokenBytes(TokenizerFile.parse(json))).toThrow(
        "Expected a token for each of 256 bytes, found 255 of them",
      );
    }
  });
});
