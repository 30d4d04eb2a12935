import { reset } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { CryptoKey as JoseKey, JWK } from "jose";
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { UpstreamStep } from "../support/upstream-script.ts";
import { TenantId } from "../../src/protocol/ids.ts";
import { LiveJwtIssuer } from "../../src/tenants/jwt-issuer.ts";
import { authenticate, authenticateAdmin } from "../../workers/auth.ts";
import { GatewayError } from "../../workers/gateway-error.ts";
import { FAILURES_BURST } from "../../src/tenants/address-guard.ts";
import { settingsOf } from "../../workers/settings.ts";
import { aLiveConfiguration, applyConfiguration, tearDirectory } from "./support/configuration.ts";
import type { Upstream } from "./support/upstream.ts";
import { anUpstream } from "./support/upstream.ts";

/** Issuers are remembered for 5 s, so each test has a time of its own. */
let nowMs = 1_800_000_000_000;
beforeEach(() => {
  nowMs += 3_600_000;
  vi.useFakeTimers({ toFake: ["Date"], now: nowMs });
});
afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await reset();
});

interface Signer {
  readonly kid: string;
  readonly privateKey: JoseKey;
  readonly publicKey: JWK;
}

async function aSigner(kid: string, algorithm = "ES256"): Promise<Signer> {
  const { privateKey, publicKey } = await generateKeyPair(algorithm, { extractable: true });
  return { kid, privateKey, publicKey: { ...(await exportJWK(publicKey)), kid, alg: algorithm } };
}

/** An issuer with its keys at a server of its own, trusted by the live configuration. */
async function anIssuer(wish: Partial<LiveJwtIssuer> = {}) {
  const server = anUpstream();
  const issuer = LiveJwtIssuer.parse({
    name: "login",
    issuer: `https://issuer.test/${crypto.randomUUID()}`,
    jwksUrl: `${server.endpointUrl}/jwks.json`,
    audience: "sluice",
    tenantClaim: "tenant",
    algorithms: ["ES256"],
    ...wish,
  });
  await applyConfiguration({ ...aLiveConfiguration(), jwtIssuers: [issuer] });
  const signer = await aSigner("first");
  await publish(server, [signer]);
  return { server, issuer, signer };
}

const answerOf = (
  text: string,
  head: Partial<{ status: number; headers: Record<string, string> }> = {},
): UpstreamStep[] => [
  { kind: "head", status: 200, headers: { "content-type": "application/json" }, ...head },
  { kind: "text", text },
  { kind: "end" },
];

async function publish(server: Upstream, signers: readonly Signer[]): Promise<void> {
  const keys = signers.map(({ publicKey }) => publicKey);
  await server.answerWith(answerOf(JSON.stringify({ keys })));
}

const claimsOf = (issuer: LiveJwtIssuer, wish: object = {}) => ({
  iss: issuer.issuer,
  aud: "sluice",
  tenant: "tenant-a",
  exp: Math.floor(nowMs / 1000) + 60,
  ...wish,
});

async function sign({ kid, privateKey }: Signer, claims: object, alg = "ES256"): Promise<string> {
  return new SignJWT({ ...claims }).setProtectedHeader({ alg, kid }).sign(privateKey);
}

const at = (seconds: unknown) => Math.floor(nowMs / 1000) + Number(seconds);

/** The tenant and the key's name of a token, or why it is refused. */
async function verdictOn(token: string): Promise<string> {
  const headers = new Headers({ authorization: `Bearer ${token}` });
  const wish = { env, settings: settingsOf(env), nowMs: Date.now(), scope: "inference" as const };
  try {
    const { tenant, keyName } = await authenticate(headers, wish);
    return `${tenant.tenantId} by ${keyName}`;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return `${error.problem.code}: ${error.message}`;
  }
}

const ACCEPTED = "tenant-a by jwt:login";

describe("a JWT as bearer", () => {
  test("that has expired is told so every time: whoever has it does not guess", async () => {
    const { issuer, signer } = await anIssuer();
    const token = await sign(signer, claimsOf(issuer, { exp: at(-10) }));
    const headers = new Headers({
      authorization: `Bearer ${token}`,
      "cf-connecting-ip": "203.0.113.99",
    });
    const wish = { env, settings: settingsOf(env), nowMs: Date.now(), scope: "inference" as const };
    for (let count = 0; count < 2 * FAILURES_BURST; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      await expect(authenticate(headers, wish)).rejects.toMatchObject({
        problem: { code: "invalid_api_key", message: "The token is not valid: it has expired" },
      });
    }
  });

  test("stands for the tenant that its claim names, and its issuer's keys are fetched once", async () => {
    const { issuer, signer, server } = await anIssuer();
    for (let count = 0; count < 5; count += 1) {
      // oxlint-disable-next-line no-await-in-loop -- one request after the other
      expect(await verdictOn(await sign(signer, claimsOf(issuer, { jti: count })))).toBe(ACCEPTED);
    }
    expect((await server.requests()).map(({ path }) => path)).toEqual(["/jwks.json"]);
  });

  test("may name its tenant in another claim, for several audiences at once", async () => {
    const { issuer, signer } = await anIssuer({ tenantClaim: "https://sluice/tenant" });
    const claims = claimsOf(issuer, { "https://sluice/tenant": "tenant-a", aud: ["x", "sluice"] });
    expect(await verdictOn(await sign(signer, claims))).toBe(ACCEPTED);
  });

  test.each([
    ["has expired", { exp: -10 }, "it has expired"],
    ["is not valid yet", { nbf: 60 }, "its claim 'nbf'"],
    ["is for somebody else", { aud: "another" }, "its claim 'aud'"],
    ["never expires", { exp: undefined }, "its claim 'exp'"],
    [
      "is of an issuer that is not trusted",
      { iss: "https://evil.test" },
      "its issuer is not trusted",
    ],
    ["is of no issuer", { iss: undefined }, "its issuer is not trusted"],
    ["names no tenant", { tenant: undefined }, "its claim 'tenant' names no tenant"],
    ["names a tenant as a list", { tenant: ["tenant-a"] }, "its claim 'tenant' names no tenant"],
    ["names a tenant that is not there", { tenant: "__proto__" }, "its tenant is not known"],
  ])(
    "that %s is refused",
    async (_what, { exp, nbf, ...wish }: Record<string, unknown>, reason) => {
      const { issuer, signer } = await anIssuer();
      const claims = Object.entries({
        ...claimsOf(issuer),
        ...wish,
        ...(exp !== undefined && { exp: at(exp) }),
        ...(nbf !== undefined && { nbf: at(nbf) }),
      }).filter(
        ([name, value]) => value !== undefined && !(name === "exp" && _what === "never expires"),
      );
      const verdict = await verdictOn(await sign(signer, Object.fromEntries(claims)));
      expect(verdict).toContain(`invalid_api_key: The token is not valid: ${reason}`);
    },
  );

  test("that is not signed, signed by another algorithm, or by a secret that everybody knows, is refused", async () => {
    const { issuer, signer, server } = await anIssuer();
    const claims = claimsOf(issuer);
    const unsigned = new UnsecuredJWT({ ...claims }).encode();
    const withSecret = await new SignJWT({ ...claims })
      .setProtectedHeader({ alg: "HS256", kid: "first" })
      .sign(new TextEncoder().encode(JSON.stringify(signer.publicKey)));
    const rsa = await aSigner("rsa", "RS256");
    await publish(server, [signer, rsa]);
    const byOther = await sign(rsa, claims, "RS256");
    const [head, , signature] = (await sign(signer, claims)).split(".");
    const forged = [
      head,
      btoa(JSON.stringify({ ...claims, tenant: "b" })).replaceAll("=", ""),
      signature,
    ];
    for (const token of [
      unsigned,
      withSecret,
      byOther,
      forged.join("."),
      "eyJ.e30.",
      "eyJhbGciOiJub25lIn0.e30.",
    ]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await verdictOn(token)).toMatch(/^invalid_api_key: The token is not valid/);
    }
    expect(await verdictOn(await sign(signer, claims))).toBe(ACCEPTED);
  });

  test("decides neither whom we call nor speaks for tenants that its issuer may not", async () => {
    const other = anUpstream();
    const { issuer, signer, server } = await anIssuer({ tenantIds: [TenantId.parse("tenant-b")] });
    const token = await new SignJWT({ ...claimsOf(issuer) })
      .setProtectedHeader({
        alg: "ES256",
        kid: "first",
        jku: other.endpointUrl,
        x5u: other.endpointUrl,
      })
      .sign(signer.privateKey);
    expect(await verdictOn(token)).toContain("its issuer does not speak for that tenant");
    expect(await other.requests()).toEqual([]);
    expect(await server.requests()).toHaveLength(1);
  });

  test("is for inference and usage, never for administration", async () => {
    const { issuer, signer } = await anIssuer();
    const headers = new Headers({
      authorization: `Bearer ${await sign(signer, claimsOf(issuer))}`,
    });
    const wish = { env, settings: settingsOf(env), nowMs };
    await expect(authenticateAdmin(headers, wish)).rejects.toMatchObject({
      problem: { code: "invalid_api_key" },
    });
    await expect(authenticate(headers, { ...wish, scope: "admin" })).rejects.toMatchObject({
      problem: { code: "permission_denied" },
    });
  });
});

describe("an issuer's keys", () => {
  test("may change: the new one is found, and unknown ones do not make us ask without end", async () => {
    const { issuer, signer, server } = await anIssuer();
    const claims = claimsOf(issuer, { exp: Math.floor(nowMs / 1000) + 3_600 });
    expect(await verdictOn(await sign(signer, claims))).toBe(ACCEPTED);
    const second = await aSigner("second");
    await publish(server, [signer, second]);
    const storm = await Promise.all(
      Array.from({ length: 20 }, async (_, count) =>
        verdictOn(await sign({ ...second, kid: `unknown-${count}` }, claims)),
      ),
    );
    for (const verdict of storm) expect(verdict).toContain("its signature cannot be checked");
    expect(await server.requests()).toHaveLength(1);
    vi.setSystemTime(nowMs + 31_000);
    expect(await verdictOn(await sign(second, claims))).toBe(ACCEPTED);
    expect(await server.requests()).toHaveLength(2);
    await publish(server, [second]);
    vi.setSystemTime(nowMs + 700_000);
    expect(await verdictOn(await sign(second, claims))).toBe(ACCEPTED);
    expect(await verdictOn(await sign(signer, claims))).toContain(
      "its signature cannot be checked",
    );
  });

  test.each([
    ["an error", answerOf("no", { status: 500 })],
    ["a redirect", answerOf("", { status: 302, headers: { location: "http://127.0.0.1:1/" } })],
    ["no JSON", answerOf("<html>")],
    ["no set of keys", answerOf('{"keys":7}')],
    ["too much", answerOf(JSON.stringify({ keys: [], pad: "x".repeat(70_000) }))],
    ["nothing at all", [{ kind: "hang" } as const]],
  ])(
    "that come as %s leave the token unjudged, and are not asked for again at once",
    async (_what, answer) => {
      vi.spyOn(console, "error").mockImplementation(() => {});
      const { issuer, signer, server } = await anIssuer();
      await server.answerWith(answer);
      const token = await sign(signer, claimsOf(issuer));
      expect(await verdictOn(token)).toContain("not_configured: The keys of the token's issuer");
      expect(await verdictOn(token)).toContain("not_configured: The keys of the token's issuer");
      expect(await server.requests()).toHaveLength(1);
      await publish(server, [signer]);
      vi.setSystemTime(nowMs + 6_000);
      expect(await verdictOn(token)).toBe(ACCEPTED);
    },
  );

  test("are taken from the URL of the configuration alone, wherever that redirects to", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const { issuer, signer, server } = await anIssuer();
    const elsewhere = anUpstream();
    await publish(elsewhere, [signer]);
    const headers = { location: `${elsewhere.endpointUrl}/jwks.json` };
    await server.answerWith(answerOf("", { status: 302, headers }));
    expect(await verdictOn(await sign(signer, claimsOf(issuer)))).toContain("not_configured");
    expect(await elsewhere.requests()).toEqual([]);
  });
});

describe("the Directory, for tokens", () => {
  test("is bridged for ten minutes when it is away, and no longer", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {});
    const { issuer, signer } = await anIssuer();
    const token = await sign(signer, claimsOf(issuer, { exp: Math.floor(nowMs / 1000) + 3_600 }));
    expect(await verdictOn(token)).toBe(ACCEPTED);
    await tearDirectory();
    vi.setSystemTime(nowMs + 599_000);
    expect(await verdictOn(token)).toBe(ACCEPTED);
    vi.setSystemTime(nowMs + 601_000);
    expect(await verdictOn(token)).toContain("not_configured");
  });

  test("is not asked about tokens of a gateway that trusts nobody", async () => {
    const { issuer, signer, server } = await anIssuer();
    const token = await sign(signer, claimsOf(issuer));
    await applyConfiguration(aLiveConfiguration());
    expect(await verdictOn(token)).toContain("its issuer is not trusted here");
    expect(await server.requests()).toEqual([]);
  });
});
