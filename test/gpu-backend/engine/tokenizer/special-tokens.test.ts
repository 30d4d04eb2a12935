import { describe, expect, test } from "vitest";
import { SpecialTokens } from "../../../../gpu-backend/engine/tokenizer/special-tokens.ts";

const token = (id: number, content: string, options: object = {}) => ({
  id,
  content,
  special: true,
  lstrip: false,
  rstrip: false,
  ...options,
});

describe("SpecialTokens", () => {
  test("splits text at its markers", () => {
    const tokens = new SpecialTokens([token(1, "<s>"), token(2, "</s>")]);
    expect(tokens.split("<s>one</s><s>")).toEqual([1, "one", 2, 1]);
    expect(tokens.split("plain")).toEqual(["plain"]);
    expect(tokens.split("")).toEqual([]);
    expect(tokens.contents()).toEqual(["<s>", "</s>"]);
  });

  test("the longest of several markers that begin together counts", () => {
    const tokens = new SpecialTokens([token(1, "[A"), token(2, "[A]"), token(3, "[")]);
    expect(tokens.split("[A][A[")).toEqual([2, 1, 3]);
  });

  test("characters of patterns in a marker are only characters", () => {
    const contents = ["(a|b)", ".*", "[^x]", "a{2}", "\\d", "$", "-/-"];
    const tokens = new SpecialTokens(contents.map((content, id) => token(id, content)));
    for (const [id, content] of contents.entries()) {
      expect(tokens.split(`q${content}q`)).toEqual(["q", id, "q"]);
    }
    expect(tokens.split("a b x aa 7")).toEqual(["a b x aa 7"]);
  });

  test("a marker swallows the white space that it says", () => {
    const tokens = new SpecialTokens([
      token(1, "<l>", { lstrip: true }),
      token(2, "<r>", { rstrip: true }),
    ]);
    expect(tokens.split("a <l> b")).toEqual(["a", 1, " b"]);
    expect(tokens.split("a <r> b")).toEqual(["a ", 2, "b"]);
    expect(tokens.split("<r> \n <l>")).toEqual([2, 1]);
  });

  test("added tokens that are not special split nothing", () => {
    const tokens = new SpecialTokens([token(1, "<think>", { special: false })]);
    expect(tokens.split("<think>")).toEqual(["<think>"]);
    expect(tokens.contents()).toEqual([]);
  });
});
