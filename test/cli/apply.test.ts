import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { keyHasher } from "../../cli/read-configuration.ts";
import { leaveRunFile } from "../../cli/run-file.ts";
import type { RunFolder } from "../../cli/stack/run-folder.ts";
import { createRunFolder } from "../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../cli/stack/secrets.ts";
import { ThingLine } from "../../src/tenants/configuration-rows.ts";
import { LiveConfiguration } from "../../src/tenants/live-configuration.ts";
import { takeFreePorts } from "../support/free-ports.ts";
import { runRecorded } from "./support/recorded-terminal.ts";

const ADMIN_KEY = "an-admin-key-of-32-characters-or-more";
const folder = createRunFolder();
afterAll(() => folder.remove());

const FILE = join(folder.path, "sluice.yaml");
const TEXT = `models: { tiny: { context: 2048, pool: local } }
pools: { local: { engine: sluice, replicas: [{ url: "http://127.0.0.1:9101" }] } }
tenants:
  acme:
    keys: [{ name: prod, hash: "hmac-sha256:${"a".repeat(64)}" }]
    models: [tiny]
    class: interactive
`;
writeFileSync(FILE, TEXT);

const aChange = (kind: string, name: string, change: string) => ({ kind, name, change });
const NOTHING_REMOVED = {
  version: 3,
  counts: { added: 1, changed: 0, removed: 1 },
  changes: [aChange("model", "old", "removed"), aChange("tenant", "acme", "added")],
  problems: [],
};
const NAMES = "- model old\n+ tenant acme\n";

/** A gateway's admin API as far as its wire goes: it answers as told and keeps what it was sent. */
class ScriptedGateway {
  readonly sent: {
    method: string | undefined;
    path: string | undefined;
    key: string | undefined;
    body: string;
  }[] = [];
  status = 200;
  answer = JSON.stringify({
    version: 4,
    isChanged: true,
    changes: { added: 1, changed: 2, removed: 3 },
  });
  /** What it tells of a change before that is made. */
  preview: object = NOTHING_REMOVED;
  /** What was sent to make a configuration live. */
  get applied() {
    return this.sent.filter(({ method }) => method === "PUT");
  }

  readonly #listener: Server = createServer((request, response) => {
    void this.#answer(request, response);
  });

  async listen(): Promise<string> {
    const [port = 0] = await takeFreePorts(1);
    await new Promise<void>((resolve) => this.#listener.listen(port, "127.0.0.1", resolve));
    return `http://127.0.0.1:${port}`;
  }

  close(): void {
    this.#listener.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url: path, headers } = request;
    const body = await readText(request);
    this.sent.push({ method, path, key: headers.authorization, body });
    const isPreview = path === "/admin/v1/configuration/diff";
    response.writeHead(isPreview ? 200 : this.status, { "content-type": "application/json" });
    response.end(isPreview ? JSON.stringify(this.preview) : this.answer);
  }
}

async function readText(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  return text;
}

describe("sluice apply", () => {
  let gateway: ScriptedGateway;
  let url: string;
  beforeEach(async () => {
    vi.stubEnv("SLUICE_ADMIN_KEY", ADMIN_KEY);
    vi.stubEnv("SLUICE_KEY_PEPPER", undefined);
    gateway = new ScriptedGateway();
    url = await gateway.listen();
  });
  afterEach(() => {
    vi.unstubAllEnvs();
    gateway.close();
  });

  test("the file goes to the admin API as a live configuration, under the admin key", async () => {
    expect(await runRecorded("apply", FILE, "--url", `${url}/`)).toEqual({
      exitCode: 0,
      stdout: `${NAMES}${FILE} is live at ${url} as version 4: 1 added, 2 changed, 3 removed`,
      stderr: "",
    });
    const [sent] = gateway.applied;
    expect(sent).toMatchObject({
      method: "PUT",
      path: "/admin/v1/configuration",
      key: `Bearer ${ADMIN_KEY}`,
    });
    const body: { configuration: unknown } = JSON.parse(sent?.body ?? "");
    // What was looked at is what is replaced.
    expect(body).toEqual({ configuration: expect.anything(), expectedVersion: 3 });
    expect(LiveConfiguration.parse(body.configuration)).toEqual(body.configuration);
  });

  test("an expected version is passed on, and JSON is for programs", async () => {
    const { stdout } = await runRecorded(
      "apply",
      FILE,
      `--url=${url}`,
      "--expected-version=2",
      "--json",
    );
    expect(JSON.parse(stdout)).toMatchObject({ file: FILE, url, version: 4, isChanged: true });
    expect(JSON.parse(gateway.applied[0]?.body ?? "")).toMatchObject({ expectedVersion: 2 });
  });

  test("who would be locked out is named, and nothing is done without --yes", async () => {
    const keys = Array.from({ length: 30 }, (_, at) => aChange("key", `acme/k${at}`, "removed"));
    gateway.preview = {
      version: 3,
      counts: { added: 1, changed: 0, removed: 31 },
      changes: [
        { ...aChange("tenant", "newt", "removed"), issuedKeys: 2 },
        ...keys,
        aChange("model", "more", "added"),
      ],
    };
    const { exitCode, stdout, stderr } = await runRecorded("apply", FILE, `--url=${url}`);
    expect([exitCode, stdout]).toEqual([1, ""]);
    expect(stderr.split("\n")).toEqual([
      "- tenant newt, and 2 issued keys",
      ...keys.slice(0, 19).map(({ name }) => `- key ${name}`),
      "… and 11 more",
      `${FILE} does not have them: they would be removed from ${url}`,
      "Nothing was done: say --yes if this is meant",
    ]);
    expect(gateway.applied).toEqual([]);
    const done = await runRecorded("apply", FILE, `--url=${url}`, "--yes");
    expect([done.exitCode, done.stderr]).toEqual([0, ""]);
    expect(done.stdout).toContain("- tenant newt, and 2 issued keys");
    const json = await runRecorded("apply", FILE, `--url=${url}`, "--yes", "--json");
    expect(JSON.parse(json.stdout).removed).toHaveLength(31);
    expect(gateway.applied).toHaveLength(2);
  });

  describe("with --local, where a gateway runs", () => {
    const run = { pid: process.pid, url: "", secrets: provideSecrets({}) };
    let takeRunFileAway: () => void;
    let runFolder: RunFolder;
    beforeEach(() => {
      vi.stubEnv("SLUICE_ADMIN_KEY", undefined);
      runFolder = createRunFolder();
      takeRunFileAway = leaveRunFile(folder.path, runFolder, { ...run, url });
      vi.spyOn(process, "cwd").mockReturnValue(folder.path);
    });
    afterEach(() => {
      vi.restoreAllMocks();
      takeRunFileAway();
      runFolder.remove();
    });

    test("its URL and its secrets are found, and a plain key is hashed as it will hash it", async () => {
      const file = join(folder.path, "plain.yaml");
      writeFileSync(file, TEXT.replace(/hash: "[^"]+"/, "key: sk-plain-text"));
      expect(await runRecorded("apply", file, "--local")).toEqual({
        exitCode: 0,
        stdout: `${NAMES}${file} is live at ${url} as version 4: 1 added, 2 changed, 3 removed`,
        stderr: "",
      });
      const [sent] = gateway.applied;
      expect(sent?.key).toBe(`Bearer ${run.secrets.SLUICE_ADMIN_KEY}`);
      const hash = keyHasher(run.secrets.SLUICE_KEY_PEPPER)("sk-plain-text");
      expect(JSON.parse(sent?.body ?? "")).toMatchObject({ configuration: { keys: [{ hash }] } });
    });

    test("the environment wins", async () => {
      vi.stubEnv("SLUICE_ADMIN_KEY", ADMIN_KEY);
      await runRecorded("apply", FILE, "--local");
      expect(gateway.sent[0]?.key).toBe(`Bearer ${ADMIN_KEY}`);
    });

    test("its secrets are for no other gateway, and not used without --local", async () => {
      const elsewhere = await runRecorded("apply", FILE, "--local", "--url=http://127.0.0.1:1");
      expect(elsewhere).toMatchObject({ exitCode: 2, stdout: "" });
      expect(elsewhere.stderr).toContain(
        `is at ${url}, not at http://127.0.0.1:1: leave --url out`,
      );
      expect((await runRecorded("apply", FILE, `--url=${url}`)).exitCode).toBe(2);
      expect(gateway.sent).toEqual([]);
    });
  });

  test("a key that has expired is a warning, and the file goes live", async () => {
    const file = join(folder.path, "expired.yaml");
    writeFileSync(file, TEXT.replace("name: prod,", "name: prod, expires: 2020-01-01,"));
    const { exitCode, stderr } = await runRecorded("apply", file, `--url=${url}`);
    expect(exitCode).toBe(0);
    expect(stderr).toContain(
      `Warning: ${file}:5 tenants.acme.keys[0].expires: this key has expired`,
    );
    expect(gateway.applied).toHaveLength(1);
  });

  test("a configuration that is live already is told as such, and a reason is passed on", async () => {
    gateway.answer = JSON.stringify({ version: 4, isChanged: false });
    const { stdout } = await runRecorded("apply", FILE, `--url=${url}`, "--reason", "a try");
    expect(stdout).toBe(`${FILE} is live at ${url} as version 4, which is live already`);
    expect(JSON.parse(gateway.applied[0]?.body ?? "")).toMatchObject({ reason: "a try" });
  });

  test("a configuration with very many keys goes in lines", async () => {
    const keys = Array.from(
      { length: 1_001 },
      (_, at) => `{ name: k${at}, hash: "hmac-sha256:${String(at).padStart(64, "0")}" }`,
    );
    const file = join(folder.path, "many.yaml");
    writeFileSync(file, TEXT.replace(/keys: .*/, `keys: [${keys.join(", ")}]`));
    await runRecorded("apply", file, `--url=${url}`, "--expected-version=3", "--reason=many keys");
    const [sent] = gateway.applied;
    expect(sent?.path).toBe("/admin/v1/configuration?expectedVersion=3&reason=many+keys");
    const lines = (sent?.body ?? "").split("\n").map((line) => ThingLine.parse(JSON.parse(line)));
    expect(lines.filter(({ kind }) => kind === "key")).toHaveLength(1_001);
  });

  test("a refusal is told in the gateway's own words", async () => {
    gateway.status = 412;
    gateway.answer = JSON.stringify({
      error: { message: "Expected version 3 to be live, found version 5" },
    });
    expect(await runRecorded("apply", FILE, `--url=${url}`)).toEqual({
      exitCode: 1,
      stdout: "",
      stderr: `The gateway at ${url} refused (412): Expected version 3 to be live, found version 5`,
    });
    gateway.answer = "<html>";
    expect((await runRecorded("apply", FILE, `--url=${url}`)).stderr).toContain("no reason");
  });

  test("a gateway that is not there is a failure that names the cause", async () => {
    gateway.close();
    const { exitCode, stderr } = await runRecorded("apply", FILE, `--url=${url}`);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(/^No answer from .*\/admin\/v1\/configuration\/diff: .*ECONNREFUSED/);
  });

  test("a file that is not right is never sent", async () => {
    const file = join(folder.path, "wrong.yaml");
    writeFileSync(file, "models: {}\n");
    expect((await runRecorded("apply", file, `--url=${url}`)).exitCode).toBe(1);
    expect(gateway.sent).toEqual([]);
  });

  test("the key comes from the environment, and its absence is wrong use", async () => {
    vi.stubEnv("SLUICE_ADMIN_KEY", undefined);
    const { exitCode, stderr } = await runRecorded("apply", FILE);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(
      'Expected SLUICE_ADMIN_KEY in the environment, or --local in the folder where "sluice up" runs',
    );
    vi.stubEnv("SLUICE_ADMIN_KEY", ADMIN_KEY);
    expect((await runRecorded("apply", FILE, "--local")).stderr).toContain("SLUICE_KEY_PEPPER");
  });

  test.each(["ftp://gateway.example", "gateway.example", ""])("%j is no gateway", async (wrong) => {
    const { exitCode, stderr } = await runRecorded("apply", FILE, `--url=${wrong}`);
    expect(exitCode).toBe(2);
    expect(stderr).toContain("--url: Expected a URL");
  });
});
