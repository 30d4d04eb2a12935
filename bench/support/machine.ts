import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg, release, totalmem, type } from "node:os";
import * as z from "zod";

const GIB = 2 ** 30;

/**
 * Describes where and with what a measurement is made, as the lines of a Markdown list. It is to be
 * called before the measurement, whose own load it would tell afterwards.
 */
export function describeMachine(packages: readonly string[] = []): string {
  const [cpu] = cpus();
  const memory = `${(totalmem() / GIB).toFixed(1)} GiB`;
  const [loadOneMinute = 0] = loadavg();
  return [
    `- machine: ${cpus().length} × ${cpu?.model ?? "unknown CPU"}${instructions()}, ${memory}, ${type()} ${release()}`,
    `- load before the run: ${loadOneMinute.toFixed(2)}`,
    `- versions: Node ${process.versions.node}${packages.map((name) => `, ${name} ${versionOf(name)}`).join("")}`,
    `- commit: ${commitOf()}`,
  ].join("\n");
}

/** Instructions that products of bytes are made of: a virtual machine's name of its processor tells none. */
const TELLING = ["avx2", "avx_vnni", "avx512_vnni", "asimddp"];

/** Which of them there are, where the system says so. */
function instructions(): string {
  let text: string;
  try {
    text = readFileSync("/proc/cpuinfo", "utf8");
  } catch {
    return "";
  }
  const found = new Set(/^(?:flags|Features)\s*:(.*)$/m.exec(text)?.[1]?.trim().split(" "));
  const telling = TELLING.filter((name) => found.has(name));
  return telling.length === 0 ? "" : ` (${telling.join(", ")})`;
}

function versionOf(packageName: string): string {
  const manifest: unknown = createRequire(import.meta.url)(`${packageName}/package.json`);
  return z.object({ version: z.string() }).parse(manifest).version;
}

/** The commit of the working tree, marked where that differs from it. */
function commitOf(): string {
  try {
    return git("describe", "--always", "--abbrev=12", "--dirty").trim();
  } catch {
    return "unknown (not a git checkout)";
  }
}

const git = (...args: readonly string[]) =>
  execFileSync("git", args, { cwd: import.meta.dirname, encoding: "utf8", stdio: "pipe" });
