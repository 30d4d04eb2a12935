import { describe, expect, test } from "vitest";
import * as z from "zod";
import { WrongUse } from "../../cli/command.ts";
import {
  countFlag,
  FLAG_HELP,
  flagSwitch,
  parseWords,
  portNumber,
  toHelpLines,
  wholeNumber,
} from "../../cli/flags.ts";

const FLAGS = z.object({
  port: portNumber.default(8787).register(FLAG_HELP, { valueName: "PORT", meaning: "Where" }),
  replicas: wholeNumber(1, 16)
    .optional()
    .register(FLAG_HELP, { valueName: "N", meaning: "How many" }),
  json: flagSwitch("As JSON"),
});

function faultOf(...words: string[]): string {
  try {
    parseWords(words, FLAGS, 1);
  } catch (error) {
    if (error instanceof WrongUse) return error.message;
    throw error;
  }
  throw new Error("expected wrong use");
}

describe("parseWords()", () => {
  test("a flag that is not given has its default", () => {
    const { values, positionals } = parseWords([], FLAGS, 1);
    expect(values).toEqual({ port: 8787, json: false });
    expect(positionals).toEqual([]);
  });

  test("flags and positionals may stand in any order", () => {
    const { values, positionals } = parseWords(
      ["--json", "a.yaml", "--port", "1", "--replicas=16"],
      FLAGS,
      1,
    );
    expect(values).toEqual({ port: 1, replicas: 16, json: true });
    expect(positionals).toEqual(["a.yaml"]);
  });

  test.each(["0", "65536", "-1", "80.5", "1e3", "", "80 ", "0x50", "９"])(
    "%j is no port",
    (port) => {
      expect(faultOf(`--port=${port}`)).toBe(
        `--port: Expected a whole number from 1 to 65535, found "${port}"`,
      );
    },
  );

  test("every wrong value is told at once", () => {
    expect(faultOf("--port", "x", "--replicas", "17")).toBe(
      '--port: Expected a whole number from 1 to 65535, found "x"\n' +
        '--replicas: Expected a whole number from 1 to 16, found "17"',
    );
  });

  test("a number below 0 is a value like any other", () => {
    const fault = '--port: Expected a whole number from 1 to 65535, found "-1"';
    expect(faultOf("--port", "-1")).toBe(fault);
    expect(faultOf("--port=-1")).toBe(fault);
  });

  test("an unknown flag, a missing value and a surplus word are wrong use", () => {
    expect(faultOf("--prot", "1")).toBe("Unknown option '--prot'");
    expect(faultOf("--port")).toContain("--port <value>");
    expect(faultOf("--json=yes")).toContain("--json");
    expect(faultOf("a.yaml", "b.yaml")).toBe('Unexpected word "b.yaml"');
  });
});

test("a count has its default, keeps to its bounds, and tells the default in the help", () => {
  const flags = z.object({ runs: countFlag({ min: 2, max: 9, default: 3 }, "How often") });
  expect(parseWords([], flags, 0).values).toEqual({ runs: 3 });
  expect(parseWords(["--runs=9"], flags, 0).values).toEqual({ runs: 9 });
  expect(() => parseWords(["--runs=1"], flags, 0)).toThrow("from 2 to 9");
  expect(toHelpLines(flags)).toContain("  --runs N  How often (3)");
});

test("toHelpLines() has one aligned line a flag, and one for the help itself", () => {
  expect(toHelpLines(FLAGS).split("\n")).toEqual([
    "  --port PORT   Where",
    "  --replicas N  How many",
    "  --json        As JSON",
    "  --help        Print this text",
  ]);
});
