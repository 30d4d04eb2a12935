import { describe, expect, test } from "vitest";
import { parseEngines } from "../../gpu-backend/parse-engines.ts";

const SECRET = "0123456789abcdef";

function enginesOf(line: string, secret: string | undefined = SECRET) {
  const parsed = parseEngines(line.split(" "), { SLUICE_REPLICA_SECRET: secret });
  if (parsed.kind !== "engines") throw new Error(JSON.stringify(parsed));
  return parsed.engines;
}

function problemsOf(line: string, environment = { SLUICE_REPLICA_SECRET: SECRET }) {
  const parsed = parseEngines(line.split(" "), environment);
  if (parsed.kind !== "invalid") throw new Error(JSON.stringify(parsed));
  return parsed.problems;
}

/** Of each of two, where it is reached, and where the other is. */
function reached(line: string) {
  return enginesOf(`--roles prefill,decode ${line}`).map(({ advertiseUrl, kvPeers }) => [
    advertiseUrl,
    ...kvPeers,
  ]);
}

describe("parseEngines()", () => {
  test("without roles there is one engine, as it is told", () => {
    const [engine, ...others] = enginesOf("--port 9000 --role prefill");
    expect(others).toEqual([]);
    expect(engine).toMatchObject({ port: 9000, role: "prefill", kvPeers: [], kvTiers: undefined });
  });

  test("with roles there is an engine a role, on ports that follow, with all others as peers", () => {
    const engines = enginesOf("--roles prefill,decode,mixed --port 9000 --precision f32");
    expect(engines.map(({ role, port, precision }) => [role, port, precision])).toEqual([
      ["prefill", 9000, "f32"],
      ["decode", 9001, "f32"],
      ["mixed", 9002, "f32"],
    ]);
    expect(engines.map(({ kvPeers }) => kvPeers)).toEqual([
      ["http://127.0.0.1:9001", "http://127.0.0.1:9002"],
      ["http://127.0.0.1:9000", "http://127.0.0.1:9002"],
      ["http://127.0.0.1:9000", "http://127.0.0.1:9001"],
    ]);
    for (const { advertiseUrl, kvTiers } of engines) {
      expect(advertiseUrl).toBeUndefined();
      expect(kvTiers).toEqual({ memoryBytes: 64 * 2 ** 20, disk: undefined });
    }
  });

  test("what else was given is each engine's: peers, memory, a folder of its own", () => {
    const engines = enginesOf(
      "--roles prefill,decode --kv-peers http://far:1 --kv-host-mib 8 --kv-disk /var/kv",
    );
    expect(engines.map(({ kvPeers }) => kvPeers)).toEqual([
      ["http://far:1", "http://127.0.0.1:9102"],
      ["http://far:1", "http://127.0.0.1:9101"],
    ]);
    expect(engines.map(({ kvTiers }) => [kvTiers?.memoryBytes, kvTiers?.disk?.folder])).toEqual([
      [8 * 2 ** 20, "/var/kv/9101"],
      [8 * 2 ** 20, "/var/kv/9102"],
    ]);
  });

  test("each is reached where it is said, from the first one's port on", () => {
    expect(reached("--host 0.0.0.0 --advertise-url http://gpu-1:443")).toEqual([
      ["http://gpu-1:443", "http://gpu-1:444"],
      ["http://gpu-1:444", "http://gpu-1:443"],
    ]);
    expect(reached("--advertise-url http://[::1]:80")).toEqual([
      ["http://[::1]:80", "http://[::1]:81"],
      ["http://[::1]:81", "http://[::1]:80"],
    ]);
    expect(reached("--host ::1")).toEqual([
      [undefined, "http://[::1]:9102"],
      [undefined, "http://[::1]:9101"],
    ]);
  });

  test("roles that could not work are refused, each fault once", () => {
    const expected = "expected 2 to 16 of prefill, decode and mixed, with commas between them";
    for (const wrong of ["foo,bar", "decode", "prefill,", Array(17).fill("mixed").join(",")]) {
      expect(problemsOf(`--roles ${wrong}`)).toEqual([`--roles: ${expected}, found "${wrong}"`]);
    }
    expect(problemsOf("--roles prefill,prefill")).toEqual([
      "--roles: has nobody decode: expected decode or mixed",
    ]);
    expect(problemsOf("--roles decode,decode")).toEqual([
      "--roles: has nobody compute prompts: expected prefill or mixed",
    ]);
    expect(problemsOf("--roles prefill,decode --port 0 --role mixed")).toEqual([
      "--role: expected without --roles, which says it of each engine",
      "--port: expected other than 0 with --roles, whose ports follow it",
    ]);
    expect(problemsOf("--roles prefill,decode --port 65535")).toEqual([
      '--port: expected at most 65534 with that many --roles, found "65535"',
    ]);
    expect(enginesOf("--roles prefill,decode --port 65534")).toHaveLength(2);
    expect(problemsOf("--roles prefill,decode --kv-host-mib 0")).toEqual([
      "--kv-peers: expected with --kv-host-mib, through which all of it comes",
    ]);
    expect(problemsOf("--roles prefill,decode --host 0.0.0.0")).toEqual([
      "--advertise-url: expected with --roles, since nobody reaches an engine at 0.0.0.0",
    ]);
    expect(problemsOf("--roles prefill,decode --advertise-url http://gpu-1")).toEqual([
      '--advertise-url: expected with a port, from which those of --roles follow, found "http://gpu-1"',
    ]);
    expect(problemsOf("--roles prefill,decode", { SLUICE_REPLICA_SECRET: "" })).toEqual([
      "SLUICE_REPLICA_SECRET: expected in the environment, since --kv-peers needs it to be let in there",
      "SLUICE_REPLICA_SECRET: expected in the environment, since --role prefill needs it to let others in",
    ]);
  });

  test("other faults are told with them, and help comes first", () => {
    expect(problemsOf("--roles decode --precision int4")).toEqual([
      expect.stringMatching(/^--roles: /),
      '--precision: expected int8 or f32, found "int4"',
    ]);
    expect(parseEngines(["--roles", "nonsense", "--help"], {})).toMatchObject({
      kind: "help",
      text: expect.stringContaining("--roles ROLE,…"),
    });
  });
});
