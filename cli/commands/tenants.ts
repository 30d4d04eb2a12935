import * as z from "zod";
import { KeyList, OneTenant, TenantApplied, TenantList } from "../../src/tenants/admin-answers.ts";
import { CONFIGURATION_LIMITS } from "../../src/tenants/live-configuration.ts";
import { parseMicros } from "../../src/tenants/money.ts";
import { GUARANTEED_RATIO_MAX } from "../../src/tenants/share.ts";
import { parseCount, parseRatio } from "../../src/tenants/units.ts";
import { callAdmin, inPath } from "../admin-client.ts";
import { ADMIN_FLAGS, findGateway } from "../admin-flags.ts";
import { expectedVersionFlag, inFlags, reasonFlag } from "../change-flags.ts";
import { appliedText } from "../changes-text.ts";
import { WrongUse } from "../command.ts";
import { FLAG_HELP, flagSwitch, listFlag } from "../flags.ts";
import { commandOf, requireYes, toColumns, verb } from "../verbs.ts";

const PAGE = 1_000;
/** Keys whose names are told of a tenant that is to go. */
const KEYS_NAMED_MAX = 50;
/** Takes a limit away. */
const NONE = "none";

/** A flag in one of the notations of `sluice.yaml`, or `none`. */
function notationFlag(
  { valueName, meaning, expected }: { valueName: string; meaning: string; expected: string },
  read: (text: string) => number | undefined,
) {
  return z
    .string()
    .transform((text, context): number | null => {
      if (text === NONE) return null;
      const value = read(text);
      if (value !== undefined) return value;
      const message = `Expected ${expected}, or ${NONE}`;
      context.issues.push({ code: "custom", message, input: text });
      return z.NEVER;
    })
    .optional()
    .register(FLAG_HELP, { valueName, meaning });
}

/** A whole number within the bounds that the file's has. */
function count(meaning: string, { min = 1, max }: { min?: number; max: number }) {
  const examples = max < 64 ? "" : ", such as 64 or 400k";
  const expected = `a number from ${min} to ${max}${examples}`;
  return notationFlag({ valueName: "N", expected, meaning }, (text) => {
    const value = parseCount(text);
    return value !== undefined && value >= min && value <= max ? value : undefined;
  });
}

/** What `read` finds, if it is within bounds. */
function within(
  read: (text: string) => number | undefined,
  { min = 0, max }: { min?: number; max: number },
) {
  return (text: string): number | undefined => {
    const value = read(text);
    return value !== undefined && value >= min && value <= max ? value : undefined;
  };
}

const {
  bandMax,
  requestsMax,
  requestsPerMinuteMax,
  spendPerMonthMaxMicros,
  tokensPerMinuteMax,
  tokensPerMonthMax,
  weightMax,
  weightMin,
} = CONFIGURATION_LIMITS;

const SETTINGS = {
  models: listFlag("MODELS", "The models it may use, with commas between them"),
  class: z.string().optional().register(FLAG_HELP, {
    valueName: "CLASS",
    meaning: "What it is promised: a built-in class or one of the file",
  }),
  weight: notationFlag(
    {
      valueName: "W",
      meaning: "Its weight beside others",
      expected: `a number from ${weightMin} to ${weightMax}, such as 2 or 0.5`,
    },
    within((text) => (/^\d{1,4}(\.\d{1,4})?$/.test(text) ? Number(text) : undefined), {
      min: weightMin,
      max: weightMax,
    }),
  ),
  guaranteed: notationFlag(
    {
      valueName: "RATIO",
      meaning: "What it is guaranteed of a pool",
      expected: `a share of at most ${GUARANTEED_RATIO_MAX * 100}%, such as 20%`,
    },
    within(parseRatio, { max: GUARANTEED_RATIO_MAX }),
  ),
  priority: count("Its band: 0 is the most urgent one", { min: 0, max: bandMax }),
  concurrency: count("Requests at once", { max: requestsMax }),
  "requests-per-minute": count("Requests by the minute", { max: requestsPerMinuteMax }),
  "tokens-per-minute": count("Tokens by the minute", { max: tokensPerMinuteMax }),
  "tokens-per-month": count("Tokens by the calendar month", { max: tokensPerMonthMax }),
  "spend-per-month": notationFlag(
    {
      valueName: "AMOUNT",
      meaning: "Spend by the calendar month",
      expected: "an amount from 0.000001 to 1000000000, such as 99.50",
    },
    within(parseMicros, { min: 1, max: spendPerMonthMaxMicros }),
  ),
};
const CHANGE_FLAGS = ADMIN_FLAGS.extend({
  ...SETTINGS,
  reason: reasonFlag,
  "expected-version": expectedVersionFlag,
});

/** What the admin API calls what the flags say. */
const FIELDS = {
  models: "modelIds",
  class: "className",
  weight: "weight",
  guaranteed: "guaranteedRatio",
  priority: "band",
  concurrency: "concurrencyMax",
  "requests-per-minute": "requestsPerMinuteMax",
  "tokens-per-minute": "tokensPerMinuteMax",
  "tokens-per-month": "tokensPerMonthMax",
  "spend-per-month": "spendPerMonthMaxMicros",
} as const satisfies Readonly<Record<keyof typeof SETTINGS, string>>;

const list = verb({
  name: "list",
  summary: "List all tenants",
  words: [],
  flags: ADMIN_FLAGS,
  async run(flags) {
    const { access } = findGateway(flags);
    const tenants: z.output<typeof TenantList>["tenants"] = [];
    for (let isMore = true; isMore;) {
      // oxlint-disable-next-line no-await-in-loop -- a page begins where the one before ends
      const page = await callAdmin(access, "/tenants", TenantList, {
        query: { after: tenants.at(-1)?.tenantId, limit: PAGE },
      });
      tenants.push(...page.tenants);
      isMore = page.tenants.length === PAGE;
    }
    const rows = tenants.map((tenant) => [
      tenant.tenantId,
      tenant.className,
      tenant.modelIds.join(","),
      limitText(tenant.concurrencyMax),
      limitText(tenant.requestsPerMinuteMax),
      limitText(tenant.tokensPerMinuteMax),
    ]);
    const heads = ["tenant", "class", "models", "at once", "requests/min", "tokens/min"];
    return { lines: toColumns([heads, ...rows]), json: { tenants } };
  },
});

const show = verb({
  name: "show",
  summary: "Show all of a tenant",
  words: ["TENANT"],
  flags: ADMIN_FLAGS,
  async run(flags, tenantId = "") {
    const { access } = findGateway(flags);
    const { tenant } = await callAdmin(access, pathOf(tenantId), OneTenant);
    const lines = Object.entries(tenant).map(([name, value]) => [
      name,
      typeof value === "string" ? value : JSON.stringify(value),
    ]);
    return { lines: toColumns(lines), json: { tenant } };
  },
});

const add = verb({
  name: "add",
  summary: 'Add a tenant; "sluice apply" of a file that does not have it removes it again',
  words: ["TENANT"],
  flags: CHANGE_FLAGS,
  async run(flags, tenantId = "") {
    const { models, class: className } = flags;
    if (models === undefined || className === undefined) {
      throw new WrongUse("Expected --models and --class");
    }
    const { access } = findGateway(flags);
    // What a new tenant has not is left out.
    const tenant = Object.fromEntries(
      Object.entries(settingsOf(flags)).filter(([, value]) => value !== null),
    );
    const body = { tenantId, tenant, ...optionsOf(flags) };
    const asked = callAdmin(access, "/tenants", TenantApplied, { method: "POST", body });
    const applied = await inFlags(asked, FIELDS);
    const lines = [`${tenantId} is there as of ${appliedText(applied)}`];
    return { lines, json: applied };
  },
});

const change = verb({
  name: "change",
  summary: "Change a tenant, until a file with other settings is applied",
  words: ["TENANT"],
  flags: CHANGE_FLAGS,
  async run(flags, tenantId = "") {
    const tenant = settingsOf(flags);
    if (Object.keys(tenant).length === 0) throw new WrongUse("Expected a flag for what to change");
    const { access } = findGateway(flags);
    const body = { tenant, ...optionsOf(flags) };
    const asked = callAdmin(access, pathOf(tenantId), TenantApplied, { method: "PATCH", body });
    const applied = await inFlags(asked, FIELDS);
    const lines = [`${tenantId} is changed as of ${appliedText(applied)}`];
    return { lines, json: applied };
  },
});

const remove = verb({
  name: "remove",
  summary:
    "Remove a tenant with its keys; only a rollback brings those back, not who gets its name",
  words: ["TENANT"],
  flags: ADMIN_FLAGS.extend({
    reason: reasonFlag,
    yes: flagSwitch("Do it: its requests are refused from then on"),
  }),
  async run(flags, tenantId = "") {
    const { access } = findGateway(flags);
    if (!flags.yes) {
      const path = `${pathOf(tenantId)}/keys`;
      const { keys } = await callAdmin(access, path, KeyList, { query: { limit: KEYS_NAMED_MAX } });
      const names = keys.map(({ name }) => name).join(", ");
      const andMore = keys.length < KEYS_NAMED_MAX ? "" : ", …";
      const what = names === "" ? "It has no keys" : `Its keys go with it: ${names}${andMore}`;
      requireYes(false, [`This would remove the tenant ${tenantId}. ${what}`]);
    }
    const applied = await callAdmin(access, pathOf(tenantId), TenantApplied, {
      method: "DELETE",
      query: { reason: flags.reason },
    });
    const lines = [`${tenantId} is gone as of ${appliedText(applied)}`];
    return { lines, json: applied };
  },
});

/** `sluice tenants`: the tenants of the live configuration. */
export const tenantsCommand = commandOf(
  { name: "tenants", summary: "List, show, add, change and remove tenants" },
  [list, show, add, change, remove],
);

/** The flags that were given, as the admin API names them. */
function settingsOf(flags: z.output<typeof CHANGE_FLAGS>): Readonly<Record<string, unknown>> {
  const given = Object.entries(FIELDS).map(([flag, field]): [string, unknown] => [
    field,
    Reflect.get(flags, flag),
  ]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}

function optionsOf({ reason, "expected-version": expectedVersion }: z.output<typeof CHANGE_FLAGS>) {
  return {
    ...(reason !== undefined && { reason }),
    ...(expectedVersion !== undefined && { expectedVersion }),
  };
}

const limitText = (max: number | undefined) => (max === undefined ? "-" : String(max));
const pathOf = (tenantId: string) => `/tenants/${inPath(tenantId)}`;
