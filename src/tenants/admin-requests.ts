import * as z from "zod";
import { TenantId } from "../protocol/ids.ts";
import { faultOf } from "../protocol/validation.ts";
import { KeyPermissions, LiveConfiguration } from "./live-configuration.ts";
import { NAME_NOTATION, parseName } from "./file-notations.ts";

const REASON_CHARACTERS_MAX = 500;
const VERSION_MAX = 1_000_000_000;
const HISTORY_MAX = 100;
const CHANGES_MAX = 1_000;
/** Things on one page of any other list. */
export const PAGE_MAX = 1_000;
const DAY_MS = 86_400_000;
const OVERLAP_MS_MAX = 90 * DAY_MS;

const Reason = z.string().max(REASON_CHARACTERS_MAX);
const Version = z.int().min(0).max(VERSION_MAX);

/** How a change is made, beside what is changed. */
const ChangeOptions = {
  /** Refuses to replace any version but this one, so that two operators cannot undo each other. */
  expectedVersion: Version.exactOptional(),
  /** For the history. */
  reason: Reason.exactOptional(),
};

/** A name that is given to something, as `sluice.yaml` would have it. */
const NewName = z
  .string()
  .refine((name) => parseName(name) !== undefined, faultOf("invalid_value", NAME_NOTATION));

/** What the settings of a tenant are is checked where they are merged: by `TenantSettings`. */
const Settings = z.record(z.string(), z.unknown());

// Bodies.
export const ApplyRequest = z.strictObject({ configuration: LiveConfiguration, ...ChangeOptions });
export const RollbackRequest = z.strictObject({ version: Version.min(1), ...ChangeOptions });
export const AddTenantRequest = z.strictObject({
  tenantId: NewName.pipe(TenantId),
  tenant: Settings,
  ...ChangeOptions,
});
export const ChangeTenantRequest = z.strictObject({ tenant: Settings, ...ChangeOptions });
export const CreateKeyRequest = KeyPermissions.extend({ name: NewName });
export const RotateKeyRequest = z.strictObject({
  /** Of the new key; absent: the old one's with a number. */
  name: NewName.exactOptional(),
  /** How long the old key still works. */
  overlapMs: z.int().min(0).max(OVERLAP_MS_MAX).default(DAY_MS),
  /** Of the new key. */
  expiresAtMs: z.number().exactOptional(),
});

const digits = z.string().regex(/^\d{1,16}$/);

function numberInQuery(max: number) {
  return digits.transform(Number).pipe(z.int().min(0).max(max));
}

/** How many things are asked for; as many as there may be when nothing is said. */
function limitInQuery(max: number) {
  return digits.transform(Number).pipe(z.int().min(1).max(max)).default(max);
}

// Queries.
export const ApplyQuery = z.strictObject({
  expectedVersion: numberInQuery(VERSION_MAX).exactOptional(),
  reason: Reason.exactOptional(),
});
export const RemovalQuery = z.strictObject({ reason: Reason.exactOptional() });
export const PreviewQuery = z.strictObject({ limit: limitInQuery(CHANGES_MAX) });
export const DiffQuery = z.strictObject({
  from: numberInQuery(VERSION_MAX),
  to: numberInQuery(VERSION_MAX).exactOptional(),
  limit: limitInQuery(CHANGES_MAX),
});
/** Newest first, those before one. */
export const HistoryQuery = z.strictObject({
  before: numberInQuery(VERSION_MAX).default(VERSION_MAX),
  limit: limitInQuery(HISTORY_MAX),
});
export const AuditQuery = z.strictObject({
  before: numberInQuery(Number.MAX_SAFE_INTEGER).default(Number.MAX_SAFE_INTEGER),
  limit: limitInQuery(PAGE_MAX),
});
/** In the order of names, those behind one. */
export const NamePage = z.strictObject({
  after: z.string().max(64).default(""),
  limit: limitInQuery(PAGE_MAX),
});

const number = z.string().regex(/^\d{1,15}$/);
/** Where a page of a tenant's requests begins: after a number, or after one of each of its objects. */
const cursor = z.string().regex(/^\d{1,15}(\.\d{1,15}){0,15}$/);
export const UsageQuery = z.object({
  after: cursor.transform((text) => text.split(".").map(Number)).default([]),
  limit: number.transform(Number).pipe(z.int().min(1).max(PAGE_MAX)).default(PAGE_MAX),
});

/** Each tenant of a page is one object at least, which is asked. */
export const SLO_PAGE_MAX = 100;

export const SloQuery = z.object({
  tenant: TenantId.exactOptional(),
  after: z.string().max(64).default(""),
  limit: limitInQuery(SLO_PAGE_MAX),
});
