import * as z from "zod";
import { KeyList, NewKey, OneKey } from "../../src/tenants/admin-answers.ts";
import { KEY_SCOPES } from "../../src/tenants/key-scope.ts";
import { parseDateAtMs, parseDurationMs } from "../../src/tenants/units.ts";
import { callAdmin, inPath } from "../admin-client.ts";
import { ADMIN_FLAGS, findGateway } from "../admin-flags.ts";
import { inFlags } from "../change-flags.ts";
import { FLAG_HELP, flagSwitch, listFlag } from "../flags.ts";
import type { VerbResult } from "../verbs.ts";
import { commandOf, instantText, requireYes, toColumns, verb } from "../verbs.ts";

const PAGE = 1_000;

/** What the admin API calls what the flags say. */
const FIELDS = {
  scopes: "scopes",
  models: "modelIds",
  classes: "classNames",
  "not-before": "notBeforeAtMs",
  expires: "expiresAtMs",
  overlap: "overlapMs",
};

const dateFlag = (meaning: string) =>
  z
    .string()
    .transform((text, context) => {
      const atMs = parseDateAtMs(text);
      if (atMs !== undefined) return atMs;
      context.issues.push({
        code: "custom",
        message: "Expected a date such as 2027-06-30",
        input: text,
      });
      return z.NEVER;
    })
    .optional()
    .register(FLAG_HELP, { valueName: "DATE", meaning });

const overlapFlag = z
  .string()
  .default("24h")
  .transform((text, context) => {
    const ms = text === "0" ? 0 : parseDurationMs(text);
    if (ms !== undefined) return ms;
    context.issues.push({
      code: "custom",
      message: "Expected a duration such as 24h, or 0",
      input: text,
    });
    return z.NEVER;
  })
  .register(FLAG_HELP, {
    valueName: "TIME",
    meaning: "How long the old key still works (24h); at most 90 days",
  });

const list = verb({
  name: "list",
  summary: "List a tenant's keys",
  words: ["TENANT"],
  flags: ADMIN_FLAGS,
  async run(flags, tenant = "") {
    const { access } = findGateway(flags);
    const keys: z.output<typeof KeyList>["keys"] = [];
    for (let isMore = true; isMore;) {
      // oxlint-disable-next-line no-await-in-loop -- a page begins where the one before ends
      const page = await callAdmin(access, pathOf(tenant), KeyList, {
        query: { after: keys.at(-1)?.name, limit: PAGE },
      });
      keys.push(...page.keys);
      isMore = page.keys.length === PAGE;
    }
    const rows = keys.map((key) => [
      key.name,
      key.source,
      key.scopes.join(","),
      instantText(key.notBeforeAtMs),
      instantText(key.expiresAtMs),
      instantText(key.lastUsedAtMs),
      [...(key.modelIds ?? []), ...(key.classNames ?? [])].join(",") || "-",
    ]);
    const heads = ["name", "source", "scopes", "not before", "expires", "last used", "only for"];
    return { lines: toColumns([heads, ...rows]), json: { keys } };
  },
});

const create = verb({
  name: "create",
  summary: "Make a new key, which is shown once; with --json it is apiKey, and key tells of it",
  words: ["TENANT", "NAME"],
  flags: ADMIN_FLAGS.extend({
    scopes: listFlag("SCOPES", `What it may do: ${KEY_SCOPES.join(",")} (inference,usage)`),
    models: listFlag("MODELS", "Only these models of the tenant, with commas between them"),
    classes: listFlag("CLASSES", "Only these classes of the tenant"),
    "not-before": dateFlag("The day on which it begins to work"),
    expires: dateFlag("The day on which it works no more"),
  }),
  async run(flags, tenant = "", name = "") {
    const { access } = findGateway(flags);
    const { scopes, models, classes, "not-before": notBefore, expires } = flags;
    const body = {
      name,
      ...(scopes !== undefined && { scopes }),
      ...(models !== undefined && { modelIds: models }),
      ...(classes !== undefined && { classNames: classes }),
      ...(notBefore !== undefined && { notBeforeAtMs: notBefore }),
      ...(expires !== undefined && { expiresAtMs: expires }),
    };
    const asked = callAdmin(access, pathOf(tenant), NewKey, { method: "POST", body });
    const made = await inFlags(asked, FIELDS);
    return newKeyResult(made, []);
  },
});

const rotate = verb({
  name: "rotate",
  summary: "Make a new key in the place of another one, which still works for a while",
  words: ["TENANT", "NAME"],
  flags: ADMIN_FLAGS.extend({
    overlap: overlapFlag,
    name: z.string().optional().register(FLAG_HELP, {
      valueName: "NAME",
      meaning: "Of the new key (the old one's with a number)",
    }),
    expires: dateFlag("The day on which the new key works no more"),
  }),
  async run(flags, tenant = "", old = "") {
    const { access } = findGateway(flags);
    const { overlap: overlapMs, name, expires } = flags;
    const path = `${pathOf(tenant)}/${inPath(old)}/rotate`;
    const body = {
      overlapMs,
      ...(name !== undefined && { name }),
      ...(expires !== undefined && { expiresAtMs: expires }),
    };
    const asked = callAdmin(access, path, NewKey, { method: "POST", body });
    const made = await inFlags(asked, FIELDS);
    const endsAtMs = Date.now() + overlapMs;
    return newKeyResult(made, [`The key ${old} works until ${instantText(endsAtMs)}`]);
  },
});

const revoke = verb({
  name: "revoke",
  summary: "End a key at once and for good",
  words: ["TENANT", "NAME"],
  flags: ADMIN_FLAGS.extend({ yes: flagSwitch("Do it: who uses the key is refused from then on") }),
  async run(flags, tenant = "", name = "") {
    const { access } = findGateway(flags);
    requireYes(flags.yes, [`This would end the key ${name} of ${tenant} for good`]);
    const path = `${pathOf(tenant)}/${inPath(name)}`;
    const json = await callAdmin(access, path, OneKey, { method: "DELETE" });
    return { lines: [`The key ${name} of ${tenant} opens nothing any more, within 5 s`], json };
  },
});

/** `sluice keys`: the keys of a tenant. */
export const keysCommand = commandOf(
  { name: "keys", summary: "List, make, rotate and revoke keys" },
  [list, create, rotate, revoke],
);

function newKeyResult(made: z.output<typeof NewKey>, more: readonly string[]): VerbResult {
  const lines = [`New key ${made.key.name}, shown only this once: ${made.apiKey}`, ...more];
  return { lines, json: made };
}

const pathOf = (tenant: string) => `/tenants/${inPath(tenant)}/keys`;
