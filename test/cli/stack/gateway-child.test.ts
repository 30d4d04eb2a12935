import { readFileSync, statSync } from "node:fs";
import { afterAll, afterEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { isBuildFailure, planGatewayChild, toLocalUrl } from "../../../cli/stack/gateway-child.ts";
import { createRunFolder } from "../../../cli/stack/run-folder.ts";
import { provideSecrets } from "../../../cli/stack/secrets.ts";

describe("planGatewayChild()", () => {
  const folder = createRunFolder();
  const secrets = provideSecrets({});
  const plan = planGatewayChild({ host: "127.0.0.1", port: 8787 }, folder, secrets);
  afterAll(() => folder.remove());
  afterEach(() => vi.unstubAllEnvs());

  test("secrets reach the Worker through a file that nobody else can read, not through argv", () => {
    const file = plan.command[plan.command.indexOf("--env-file") + 1] ?? "";
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const text = readFileSync(file, "utf8");
    expect(text).toContain("SLUICE_MODE=local\n");
    for (const [name, secret] of Object.entries(secrets)) {
      expect(text).toContain(`${name}=${secret}\n`);
      expect(plan.command.join(" ")).not.toContain(secret);
      expect(Object.values(plan.environment)).not.toContain(secret);
    }
  });

  test("whatever it writes goes to the run's folder, and no proxy stands between the parts", () => {
    vi.stubEnv("HTTPS_PROXY", "http://proxy.example:3128");
    vi.stubEnv("http_proxy", "http://proxy.example:3128");
    vi.stubEnv("WRANGLER_REGISTRY_PATH", "/elsewhere");
    const fresh = createRunFolder();
    onTestFinished(() => fresh.remove());
    const { command, environment } = planGatewayChild(
      { host: "127.0.0.1", port: 8787 },
      fresh,
      secrets,
    );
    expect(environment["WRANGLER_REGISTRY_PATH"]).toBe(`${fresh.path}/registry`);
    expect(environment["WRANGLER_LOG_PATH"]).toBe(`${fresh.path}/logs`);
    expect(command[command.indexOf("--persist-to") + 1]).toBe(`${fresh.path}/state`);
    expect(environment["HTTPS_PROXY"]).toBeUndefined();
    expect(environment["http_proxy"]).toBeUndefined();
  });
});

test.each([
  ["127.0.0.1", "http://127.0.0.1:8787"],
  ["0.0.0.0", "http://127.0.0.1:8787"],
  ["::", "http://127.0.0.1:8787"],
  ["::1", "http://[::1]:8787"],
  ["localhost", "http://localhost:8787"],
])("what listens on %s is reached at %s", (host, url) => {
  expect(toLocalUrl("http", { host, port: 8787 })).toBe(url);
});

test("a build failure is told from what else wrangler writes", () => {
  expect(isBuildFailure("✘ [ERROR] Build failed with 1 error:")).toBe(true);
  expect(isBuildFailure("▲ [WARNING] Processing wrangler.toml configuration:")).toBe(false);
  expect(isBuildFailure("[wrangler:info] Ready on http://127.0.0.1:8787")).toBe(false);
});
