import { EventEmitter } from "node:events";
import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { listenForEndings } from "../../../cli/stack/endings.ts";

function listen(stdin?: PassThrough) {
  const signals = new EventEmitter();
  const stdout = new EventEmitter();
  const clock = { nowMs: 10_000 };
  let stops = 0;
  const endings = listenForEndings(
    { signals, stdout, stdin, readNowMs: () => clock.nowMs },
    () => (stops += 1),
  );
  const state = () => ({ stop: endings.stop.aborted, kill: endings.kill.aborted, stops });
  return { endings, signals, stdout, clock, state };
}

describe("listenForEndings()", () => {
  test.each(["SIGINT", "SIGTERM", "SIGHUP"])("the first %s stops, a later one kills", (signal) => {
    const { signals, clock, state } = listen();
    expect(state()).toEqual({ stop: false, kill: false, stops: 0 });
    signals.emit(signal);
    expect(state()).toEqual({ stop: true, kill: false, stops: 1 });
    clock.nowMs += 500;
    signals.emit("SIGINT");
    expect(state()).toEqual({ stop: true, kill: true, stops: 1 });
  });

  test("one Ctrl-C that npm hands on is still one", () => {
    const { signals, clock, state } = listen();
    signals.emit("SIGINT");
    clock.nowMs += 499;
    signals.emit("SIGINT");
    expect(state()).toEqual({ stop: true, kill: false, stops: 1 });
  });

  test("output that nobody reads any more stops, and never kills", () => {
    const { stdout, state } = listen();
    stdout.emit("error", new Error("EPIPE"));
    stdout.emit("error", new Error("EPIPE"));
    expect(state()).toEqual({ stop: true, kill: false, stops: 1 });
  });

  test("the end of stdin stops, whatever was written to it before", async () => {
    const stdin = new PassThrough();
    const { endings, state } = listen(stdin);
    stdin.write("hello");
    const stopped = new Promise((resolve) => endings.stop.addEventListener("abort", resolve));
    stdin.end();
    await stopped;
    expect(state()).toEqual({ stop: true, kill: false, stops: 1 });
  });

  test("once released, nothing is heard, and stdin holds nothing up", () => {
    const stdin = new PassThrough();
    const { endings, signals, state } = listen(stdin);
    endings.release();
    signals.emit("SIGINT");
    expect(stdin.destroyed).toBe(true);
    expect(signals.eventNames()).toEqual([]);
    expect(state()).toEqual({ stop: false, kill: false, stops: 0 });
  });
});
