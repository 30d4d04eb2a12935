import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { toTextLines } from "../../../cli/stack/stack-event.ts";

const READY = {
  event: "ready",
  url: "http://127.0.0.1:8787",
  replicas: 2,
  tenants: 3,
  file: "sluice.local.yaml",
  demoKeys: [
    { tenant: "guests", key: "sk-sluice-demo-guests" },
    { tenant: "interactive", key: "sk-sluice-demo-interactive", model: "sluice-tiny" },
  ],
} as const;

describe("toTextLines()", () => {
  test("an engine that is ready shows what it runs and how long it took", () => {
    const line = toTextLines({
      event: "engine-ready",
      name: "replica-1",
      url: "http://127.0.0.1:9101",
      model: "sluice-tiny",
      parameters: 5_308_672,
      precision: "int8",
      runtime: "onnxruntime-web (wasm)",
      weightBytes: 10.5 * 2 ** 20,
      kvPoolBytes: 2 ** 27,
      kvPoolTokens: 10_912,
      scratchBytes: 5.2 * 2 ** 20,
      readyMs: 1903.4,
    });
    expect(line).toEqual([
      "engine  replica-1    http://127.0.0.1:9101    sluice-tiny, 5 M, int8, onnxruntime-web (wasm), weights 11, KV of 10912 tokens 128, steps 6 MiB   ready in 1.9 s",
    ]);
  });

  test("a stack that is ready shows its gateway, its demo keys and a last word", () => {
    const lines = toTextLines(READY);
    expect(lines.slice(0, 3)).toEqual([
      "gateway              http://127.0.0.1:8787    2 replicas, 3 tenants (sluice.local.yaml)",
      "key     guests       sk-sluice-demo-guests",
      "key     interactive  sk-sluice-demo-interactive",
    ]);
    expect(lines.at(-1)).toBe("ready");
  });

  test("the line to try can be pasted into a shell, and uses a key that has a model", () => {
    const lines = toTextLines(READY).slice(3, 5).join("\n").replace("try it", "");
    const script = `curl() { printf '%s\\n' "$@"; }\n${lines}`;
    expect(execFileSync("sh", ["-c", script], { encoding: "utf8" }).trim().split("\n")).toEqual([
      "-N",
      "http://127.0.0.1:8787/v1/chat/completions",
      "-H",
      "authorization: Bearer sk-sluice-demo-interactive",
      "-H",
      "content-type: application/json",
      "-d",
      '{"model":"sluice-tiny","stream":true,"messages":[{"role":"user","content":"Tell me a story about a fox."}]}',
    ]);
  });

  test("without a usable demo key there is nothing to try", () => {
    expect(toTextLines({ ...READY, demoKeys: [], tenants: 1, replicas: 1 })).toEqual([
      "gateway              http://127.0.0.1:8787    1 replica, 1 tenant (sluice.local.yaml)",
      "ready",
    ]);
  });

  test("a death shows its cause, what happens next and the last words", () => {
    const lines = toTextLines({
      event: "engine-died",
      name: "replica-2",
      cause: "signal SIGKILL",
      logTail: ["out of luck"],
      attempt: 1,
      attemptsMax: 3,
      delayMs: 500,
    });
    expect(lines).toEqual([
      "engine  replica-2    died (signal SIGKILL)    restart 1 of 3 in 0.5 s",
      "        | out of luck",
    ]);
  });

  test("an end for good is a sentence and the last words", () => {
    expect(
      toTextLines({ event: "failed", sentence: "The gateway died (exit code 1)", logTail: ["x"] }),
    ).toEqual(["The gateway died (exit code 1)", "        | x"]);
  });
});
