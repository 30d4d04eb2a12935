import * as z from "zod";
import {
  LiveConfiguration,
  LiveKey,
  LiveModel,
  LivePool,
  LiveSettings,
  LiveTenant,
} from "./live-configuration.ts";

/** Whatever a configuration consists of, one by one. */
const ROW_KINDS = ["settings", "pool", "model", "tenant", "key"] as const;
export type RowKind = (typeof ROW_KINDS)[number];

/** One thing of a configuration as it is stored and compared: alone, as text. */
export interface ConfigurationRow {
  readonly kind: RowKind;
  /** Unique within its kind; of a key its hash. */
  readonly id: string;
  /** Of a key: whose it is. */
  readonly tenantId: string | null;
  /** Of a key: what its tenant calls it. */
  readonly name: string | null;
  /** What there is beside, as JSON in the order of its schema: equal things have equal text. */
  readonly value: string;
}

/** The settings are one thing, so their name says nothing. */
const SETTINGS_ID = "-";

const KeyValue = LiveKey.omit({ hash: true, tenantId: true, name: true });

/** A row as it comes from elsewhere. What its value says is checked by `readRow`. */
export const StoredRow = z.strictObject({
  kind: z.enum(ROW_KINDS),
  id: z.string().min(1).max(256),
  tenantId: z.string().max(64).nullable(),
  name: z.string().max(64).nullable(),
  value: z.string(),
});

/** A thing of a configuration, of whichever kind. */
const Thing = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("settings"), thing: LiveSettings }),
  z.object({ kind: z.literal("pool"), thing: LivePool }),
  z.object({ kind: z.literal("model"), thing: LiveModel }),
  z.object({ kind: z.literal("tenant"), thing: LiveTenant }),
  z.object({ kind: z.literal("key"), thing: LiveKey }),
]);
export type Thing = z.infer<typeof Thing>;

/** A line of a configuration that is sent in lines: one thing under the name of its kind. */
export const ThingLine = z
  .strictObject({
    settings: LiveSettings.exactOptional(),
    pool: LivePool.exactOptional(),
    model: LiveModel.exactOptional(),
    tenant: LiveTenant.exactOptional(),
    key: LiveKey.exactOptional(),
  })
  .transform((line, context): Thing => {
    const { settings, pool, model, tenant, key } = line;
    if (Object.keys(line).length === 1) {
      if (settings !== undefined) return { kind: "settings", thing: settings };
      if (pool !== undefined) return { kind: "pool", thing: pool };
      if (model !== undefined) return { kind: "model", thing: model };
      if (tenant !== undefined) return { kind: "tenant", thing: tenant };
      if (key !== undefined) return { kind: "key", thing: key };
    }
    const message = `one thing: ${ROW_KINDS.join(", ")}`;
    context.issues.push({ code: "custom", message, input: line });
    return z.NEVER;
  });

/** Writes a thing as a line of a configuration. */
export function toThingLine({ kind, thing }: Thing): string {
  return JSON.stringify({ [kind]: thing });
}

/** Takes a configuration apart. */
export function* thingsOf(configuration: LiveConfiguration): Generator<Thing> {
  const { models, pools, tenants, keys, ...settings } = configuration;
  if (Object.keys(settings).length > 0) yield { kind: "settings", thing: settings };
  for (const thing of pools) yield { kind: "pool", thing };
  for (const thing of models) yield { kind: "model", thing };
  for (const thing of tenants) yield { kind: "tenant", thing };
  for (const thing of keys) yield { kind: "key", thing };
}

/** Writes a thing that its schema has accepted as a row. */
export function toRow(entry: Thing): ConfigurationRow {
  const { kind, thing } = entry;
  if (kind === "key") {
    const { hash, tenantId, name, ...rest } = thing;
    return { kind, id: hash, tenantId, name, value: JSON.stringify(rest) };
  }
  return { kind, id: idOf(entry), tenantId: null, name: null, value: JSON.stringify(thing) };
}

/** Reads a row back; throws when it is not what its kind should be, or stands under another's id. */
export function readRow(row: ConfigurationRow): Thing {
  const { kind, id } = row;
  const value: unknown = JSON.parse(row.value);
  if (kind === "key") {
    const { tenantId, name } = row;
    const thing = LiveKey.parse({ hash: id, tenantId, name, ...KeyValue.parse(value) });
    return { kind, thing };
  }
  const entry = Thing.parse({ kind, thing: value });
  if (idOf(entry) === id) return entry;
  throw new Error(`The ${kind} '${id}' is stored as another one`);
}

/** Puts a configuration together and checks that it is whole. */
export function assemble(entries: Iterable<Thing>) {
  return LiveConfiguration.safeParse(gather(entries));
}

function gather(entries: Iterable<Thing>) {
  const models: LiveModel[] = [];
  const pools: LivePool[] = [];
  const tenants: LiveTenant[] = [];
  const keys: LiveKey[] = [];
  let settings: LiveSettings = {};
  for (const { kind, thing } of entries) {
    if (kind === "model") models.push(thing);
    else if (kind === "pool") pools.push(thing);
    else if (kind === "tenant") tenants.push(thing);
    else if (kind === "key") keys.push(thing);
    else settings = thing;
  }
  return { ...settings, models, pools, tenants, keys };
}

function idOf({ kind, thing }: Thing): string {
  if (kind === "settings") return SETTINGS_ID;
  if (kind === "pool") return thing.poolId;
  if (kind === "model") return thing.modelId;
  return kind === "tenant" ? thing.tenantId : thing.hash;
}
