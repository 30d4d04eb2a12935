import * as z from "zod";
import { ERRORS } from "../protocol/errors.ts";
import * as answers from "./admin-answers.ts";
import * as requests from "./admin-requests.ts";
import { ThingLine } from "./configuration-rows.ts";
import { TenantSettings } from "./tenant-settings.ts";

/** One thing that the admin API does. */
interface AdminRoute {
  readonly method: "get" | "put" | "post" | "patch" | "delete";
  readonly path: string;
  readonly summary: string;
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
  /** The body may come as lines of this. */
  readonly line?: z.ZodType;
  /** Absent: an object that is described in docs/OPERATIONS.md. */
  readonly answer?: z.ZodType;
  /** Whether the answer comes in lines, an object each. */
  readonly isInLines?: boolean;
  readonly status?: number;
}

const ROUTES: readonly AdminRoute[] = [
  {
    method: "put",
    path: "/configuration",
    summary: "Make a configuration live, all of it or nothing; large ones come in lines",
    query: requests.ApplyQuery,
    body: requests.ApplyRequest,
    line: ThingLine,
    answer: answers.Applied,
  },
  {
    method: "post",
    path: "/configuration/diff",
    summary: "Tell what a configuration would change",
    query: requests.PreviewQuery,
    body: requests.ApplyRequest,
    line: ThingLine,
    answer: answers.Changes,
  },
  {
    method: "get",
    path: "/configuration/diff",
    summary: "Tell what differs between two versions, or one and the live one",
    query: requests.DiffQuery,
    answer: answers.Changes,
  },
  {
    method: "get",
    path: "/configuration/history",
    summary: "List the versions that one can go back to, newest first",
    query: requests.HistoryQuery,
    answer: answers.VersionList,
  },
  {
    method: "post",
    path: "/configuration/rollback",
    summary: "Make a former version live again, under a new number",
    body: requests.RollbackRequest,
    answer: answers.Applied,
  },
  {
    method: "get",
    path: "/tenants",
    summary: "List tenants by name",
    query: requests.NamePage,
    answer: answers.TenantList,
  },
  {
    method: "post",
    path: "/tenants",
    summary: "Add a tenant, which makes a version",
    body: requests.AddTenantRequest.extend({ tenant: TenantSettings }),
    answer: answers.TenantApplied,
  },
  {
    method: "get",
    path: "/tenants/{tenant}",
    summary: "Show a tenant",
    answer: answers.OneTenant,
  },
  {
    method: "patch",
    path: "/tenants/{tenant}",
    summary: "Change what is named of a tenant; null takes a setting away (RFC 7396)",
    body: requests.ChangeTenantRequest,
    answer: answers.TenantApplied,
  },
  {
    method: "delete",
    path: "/tenants/{tenant}",
    summary:
      "Remove a tenant with its keys, those that were issued to it too. A rollback alone brings them back, not who gets the name",
    query: requests.RemovalQuery,
    answer: answers.TenantApplied,
  },
  {
    method: "get",
    path: "/tenants/{tenant}/keys",
    summary: "List a tenant's keys by name",
    query: requests.NamePage,
    answer: answers.KeyList,
  },
  {
    method: "post",
    path: "/tenants/{tenant}/keys",
    summary: "Issue a key, which is shown this once",
    body: requests.CreateKeyRequest,
    answer: answers.NewKey,
    status: 201,
  },
  {
    method: "post",
    path: "/tenants/{tenant}/keys/{key}/rotate",
    summary: "Issue a key in the place of another one, which still works for a while",
    body: requests.RotateKeyRequest,
    answer: answers.NewKey,
    status: 201,
  },
  {
    method: "delete",
    path: "/tenants/{tenant}/keys/{key}",
    summary: "End a key at once and for good",
    answer: answers.OneKey,
  },
  {
    method: "get",
    path: "/tenants/{tenant}/usage/totals",
    summary: "Tell what each key of a tenant has used",
    answer: answers.UsageSummary,
  },
  {
    method: "get",
    path: "/audit",
    summary: "List what was done by this API, newest first",
    query: requests.AuditQuery,
    answer: answers.AuditList,
  },
  { method: "get", path: "/status", summary: "Tell the live version and how the pools are" },
  {
    method: "get",
    path: "/tenants/{tenant}/usage",
    summary: "List a tenant's counted requests, oldest first",
    query: requests.UsageQuery,
    isInLines: true,
  },
  {
    method: "post",
    path: "/tenants/{tenant}/cache/purge",
    summary: "Have nothing found any more that was cached for a tenant",
    answer: answers.Purged,
  },
  {
    method: "get",
    path: "/slo",
    summary: "Tell how the promises to one tenant are kept, or to all, a page at a time",
    query: requests.SloQuery,
  },
  { method: "get", path: "/pools/{pool}", summary: "Tell how a pool is" },
  {
    method: "put",
    path: "/pools/{pool}/closed",
    summary: "Have a pool take nothing in any more: who waits is refused, what runs goes on",
    answer: answers.PoolClosed,
  },
  {
    method: "delete",
    path: "/pools/{pool}/closed",
    summary: "Have a closed pool take requests in again",
    answer: answers.PoolClosed,
  },
  {
    method: "put",
    path: "/pools/{pool}/replicas/{replica}/drained",
    summary: "Have nothing new sent to a replica, named by its URL: what runs there goes on",
    answer: answers.ReplicaDrained,
  },
  {
    method: "delete",
    path: "/pools/{pool}/replicas/{replica}/drained",
    summary: "Have a drained replica used again",
    answer: answers.ReplicaDrained,
  },
  {
    method: "get",
    path: "/pools/{pool}/decisions",
    summary: "Tell what a pool decided, and by which inputs",
    isInLines: true,
  },
];

/** Describes the admin API by the schemas that it checks requests with. */
export function adminOpenApi() {
  const paths = new Map<string, Readonly<Record<string, object>>>();
  for (const route of ROUTES) {
    paths.set(route.path, { ...paths.get(route.path), [route.method]: operationOf(route) });
  }
  return {
    openapi: "3.1.0",
    info: { title: "Sluice admin API", version: "v1" },
    servers: [{ url: "/admin/v1" }],
    security: [{ bearer: [] }],
    paths: Object.fromEntries(paths),
    components: {
      securitySchemes: {
        bearer: {
          type: "http",
          scheme: "bearer",
          description: "An API key with scope admin, or the Worker's SLUICE_ADMIN_KEY",
        },
      },
      responses: { problem: problemResponse() },
    },
  };
}

function operationOf(route: AdminRoute): object {
  const { path, summary, query, body, line, answer = z.looseObject({}), status = 200 } = route;
  const answerType = route.isInLines === true ? "application/x-ndjson" : "application/json";
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
  const { required = [] } = toJsonSchema(query ?? z.object({}), "input");
  const inQuery = Object.entries(query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: "query",
    required: required.includes(name),
    schema: toJsonSchema(schema, "input"),
  }));
  const content = {
    ...(body !== undefined && { "application/json": { schema: toJsonSchema(body, "input") } }),
    ...(line !== undefined && { "application/x-ndjson": { schema: toJsonSchema(line, "input") } }),
  };
  return {
    summary,
    ...(inPath.length + inQuery.length > 0 && { parameters: [...inPath, ...inQuery] }),
    ...(body !== undefined && { requestBody: { required: true, content } }),
    responses: {
      [status]: {
        description: "Done",
        content: { [answerType]: { schema: toJsonSchema(answer, "output") } },
      },
      default: { $ref: "#/components/responses/problem" },
    },
  };
}

/** The one shape of every refusal. */
function problemResponse(): object {
  const types = [...new Set(Object.values(ERRORS).map(({ type }) => type))];
  const error = z.object({
    message: z.string(),
    type: z.enum(types),
    param: z.string().nullable(),
    code: z.string(),
  });
  const schema = toJsonSchema(z.object({ error }), "output");
  return { description: "Refused", content: { "application/json": { schema } } };
}

/** What a schema refines beyond JSON Schema is left out: the API says it in its answer. */
function toJsonSchema(schema: z.core.$ZodType, io: "input" | "output") {
  const { $schema: _draft, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: "any" });
  return rest;
}
