import type { Context } from "hono";
import { Hono } from "hono";
import { validate } from "../../src/protocol/validation.ts";
import {
  ApplyQuery,
  ApplyRequest,
  DiffQuery,
  HistoryQuery,
  PreviewQuery,
  RollbackRequest,
} from "../../src/tenants/admin-requests.ts";
import type { Thing } from "../../src/tenants/configuration-rows.ts";
import { ThingLine, thingsOf } from "../../src/tenants/configuration-rows.ts";
import { CONFIGURATION_LIMITS } from "../../src/tenants/live-configuration.ts";
import { orRefuse, uploadConfiguration } from "../apply-configuration.ts";
import { DIRECTORY_NAME } from "../directory-object.ts";
import type { EdgeContext } from "../edge-context.ts";
import { errorResponse } from "../error-response.ts";
import { GatewayError } from "../gateway-error.ts";
import { orThrow, readJsonObject } from "../json-body.ts";
import { readJsonLines } from "../read-lines.ts";
import { readQuery } from "./admin-query.ts";

const LINES = "application/x-ndjson";
/** What stands around the configuration in a body. */
const ENVELOPE_BYTES_MAX = 3_000;

/** `/admin/v1/configuration`: what is live, what was, and how it is changed. */
export const configurationRoutes = new Hono<EdgeContext>()
  .put("/", applyConfiguration)
  .all("/", () => errorResponse({ code: "method_not_allowed" }, { allow: "PUT" }))
  .get("/diff", compareVersions)
  .post("/diff", previewConfiguration)
  .all("/diff", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD, POST" }))
  .get("/history", listVersions)
  .all("/history", () => errorResponse({ code: "method_not_allowed" }, { allow: "GET, HEAD" }))
  .post("/rollback", rollBack)
  .all("/rollback", () => errorResponse({ code: "method_not_allowed" }, { allow: "POST" }));

/** Answers with the new version and what it changes, or with `version_conflict` and the version that is live. */
async function applyConfiguration(c: Context<EdgeContext>): Promise<Response> {
  const { things, expectedVersion, reason = "" } = await readConfiguration(c);
  const wish = { actor: c.var.actor, action: "apply", reason };
  const applied = await uploadConfiguration(things, c.env, (upload) =>
    upload.commit({ ...wish, ...(expectedVersion !== undefined && { expectedVersion }) }),
  );
  const { kind, ...outcome } = orRefuse(applied, expectedVersion);
  return c.json({ ...outcome, isChanged: kind === "applied" });
}

/** Answers with what a configuration would change if it were applied now. */
async function previewConfiguration(c: Context<EdgeContext>): Promise<Response> {
  const query = readQuery(PreviewQuery, c.req.query());
  const { things } = await readConfiguration(c, {});
  const preview = await uploadConfiguration(things, c.env, (upload) => upload.preview(query.limit));
  return c.json(preview);
}

async function compareVersions(c: Context<EdgeContext>): Promise<Response> {
  const { from, limit: countMax, ...query } = readQuery(DiffQuery, c.req.query());
  const directory = c.env.DIRECTORY.getByName(DIRECTORY_NAME);
  const to = query.to ?? (await directory.summary()).version;
  const changes = await directory.compare({ from, to }, countMax);
  if (changes === undefined) throw unknownVersion(`Version ${from} or ${to} is not kept`);
  return c.json({ from, to, ...changes });
}

async function listVersions(c: Context<EdgeContext>): Promise<Response> {
  const query = readQuery(HistoryQuery, c.req.query());
  const versions = await c.env.DIRECTORY.getByName(DIRECTORY_NAME).history(
    query.before,
    query.limit,
  );
  return c.json({ versions });
}

async function rollBack(c: Context<EdgeContext>): Promise<Response> {
  const body = await readJsonObject(c.req.raw, ENVELOPE_BYTES_MAX);
  const { version, reason = "", ...options } = orThrow(validate(RollbackRequest, body));
  const wish = { ...options, actor: c.var.actor, reason };
  const rolledBack = await c.env.DIRECTORY.getByName(DIRECTORY_NAME).rollBack(version, wish);
  if (rolledBack.kind === "unknown-version") {
    throw unknownVersion(`Version ${version} is not kept`);
  }
  const { kind, ...outcome } = orRefuse(rolledBack, options.expectedVersion);
  return c.json({ ...outcome, isChanged: kind === "applied" });
}

/** A configuration as it was sent, which may be read only once, and how it is to be applied. */
interface SentConfiguration {
  readonly things: Iterable<Thing> | AsyncIterable<Thing>;
  readonly expectedVersion?: number;
  readonly reason?: string;
}

async function readConfiguration(
  c: Context<EdgeContext>,
  lineOptions?: { readonly expectedVersion?: number },
): Promise<SentConfiguration> {
  if (c.req.header("content-type")?.split(";")[0]?.trim() === LINES) {
    const options = lineOptions ?? readQuery(ApplyQuery, c.req.query());
    return { things: readThings(c.req.raw), ...options };
  }
  const bytesMax = CONFIGURATION_LIMITS.documentBytesMax + ENVELOPE_BYTES_MAX;
  const body = await readJsonObject(c.req.raw, bytesMax);
  const { configuration, ...options } = orThrow(validate(ApplyRequest, body));
  return { things: thingsOf(configuration), ...options };
}

async function* readThings(request: Request): AsyncGenerator<Thing> {
  const { bytesMax, documentBytesMax: lineBytesMax } = CONFIGURATION_LIMITS;
  for await (const { number, value } of readJsonLines(request.body, { bytesMax, lineBytesMax })) {
    const line = validate(ThingLine, value);
    if (line.kind === "invalid") {
      const { message = "it is not right" } = line.problem;
      throw new GatewayError({ ...line.problem, message: `Line ${number}: ${message}` });
    }
    yield line.value;
  }
}

function unknownVersion(message: string): GatewayError {
  return new GatewayError({ code: "not_found", message, param: "version" });
}
