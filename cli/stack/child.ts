import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { LineSplitter } from "./line-splitter.ts";

/** What to start. Secrets belong into `environment`, never into `command`: argv is public. */
export interface ChildPlan {
  readonly command: readonly string[];
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Receives every line of stdout and stderr, in order within each of the two. */
  readonly onLine: (line: string) => void;
  /** Of a longer line only the beginning is kept; 2000 characters when absent. */
  readonly lineLengthMax?: number;
  /** How long it may take to end when asked to, before its group is killed. */
  readonly stopGraceMs?: number;
}

/** How a child ended. */
export interface ChildExit {
  /** "exit code 1", "signal SIGKILL" or why it never started. */
  readonly cause: string;
}

const TAIL_LINES_MAX = 20;
const LINE_LENGTH_MAX = 2000;
const STOP_GRACE_MS = 8000;
const DRAIN_OUTPUT_MS = 500;

/**
 * One program that was started together with whatever it starts. It leads a group of its own, so
 * that a Ctrl-C on the terminal reaches nobody but us, and holds a pipe as stdin, whose end tells it
 * that we are gone.
 */
export class Child {
  readonly exited: Promise<ChildExit>;
  readonly #child: ChildProcess;
  readonly #onLine: (line: string) => void;
  readonly #stopGraceMs: number;
  readonly #tail: string[] = [];
  #hasExited = false;

  constructor(plan: ChildPlan) {
    const [file = "", ...args] = plan.command;
    this.#onLine = plan.onLine;
    this.#stopGraceMs = plan.stopGraceMs ?? STOP_GRACE_MS;
    this.#child = spawn(file, args, {
      cwd: plan.folder,
      env: plan.environment,
      stdio: ["pipe", "pipe", "pipe"],
      detached: true,
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      if (stream !== null) this.#read(stream, plan.lineLengthMax ?? LINE_LENGTH_MAX);
    }
    // Nothing is ever written to it; a child that closes its end must not take us down.
    this.#child.stdin?.on("error", () => undefined);
    this.exited = this.#awaitExit();
  }

  /** Undefined if the program could not be started. */
  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** The last lines it wrote, oldest first, at most 20. */
  get tail(): readonly string[] {
    return this.#tail;
  }

  /** Asks it to end and, after a grace, ends its whole group. Resolves when it is gone. */
  async stop(): Promise<void> {
    if (!this.#hasExited) this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.kill(), this.#stopGraceMs);
    await this.exited;
    clearTimeout(timer);
  }

  /** Ends its whole group at once. */
  kill(): void {
    if (!this.#hasExited) this.#killGroup();
  }

  #read(stream: Readable, lineLengthMax: number): void {
    const splitter = new LineSplitter(lineLengthMax);
    stream.setEncoding("utf8");
    stream.on("data", (piece: string) => splitter.push(piece).forEach((line) => this.#take(line)));
    stream.on("end", () => splitter.end().forEach((line) => this.#take(line)));
  }

  #take(line: string): void {
    this.#tail.push(line);
    if (this.#tail.length > TAIL_LINES_MAX) this.#tail.shift();
    this.#onLine(line);
  }

  async #awaitExit(): Promise<ChildExit> {
    const exit = await new Promise<ChildExit>((resolve) => {
      this.#child.once("error", (error) => resolve({ cause: error.message }));
      this.#child.once("exit", (code, signal) =>
        resolve({ cause: signal === null ? `exit code ${code}` : `signal ${signal}` }),
      );
    });
    // What it started must not outlive it. A group with members keeps its id, and one without cannot
    // have lost it to another in the moment since, because ids are handed out in turn.
    this.#killGroup();
    this.#hasExited = true;
    await this.#drainOutput();
    return exit;
  }

  /** Lets the last lines arrive, so that whoever reports the death has them. */
  async #drainOutput(): Promise<void> {
    const isOpen = [this.#child.stdout, this.#child.stderr].some(
      (stream) => stream?.closed === false,
    );
    if (!isOpen || this.pid === undefined) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, DRAIN_OUTPUT_MS);
      this.#child.once("close", () => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  #killGroup(): void {
    if (this.pid === undefined) return;
    try {
      process.kill(-this.pid, "SIGKILL");
    } catch {
      // The group has no members left.
    }
  }
}
