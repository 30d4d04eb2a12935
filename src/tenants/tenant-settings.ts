import * as z from "zod";
import { ModelId } from "../protocol/ids.ts";
import type { Validated } from "../protocol/validation.ts";
import { faultOf, validate } from "../protocol/validation.ts";
import type { SloTargets } from "../slo/targets.ts";
import { BUILT_IN_CLASSES } from "../slo/targets.ts";
import { closestName } from "./closest-name.ts";
import type { LiveModel, LiveSettings } from "./live-configuration.ts";
import { CONFIGURATION_LIMITS, LiveShare, LiveTenant } from "./live-configuration.ts";
import { DEFAULT_SHARE } from "./share.ts";

const { weight, guaranteedRatio, band } = LiveShare.shape;

const NAMES_LISTED_MAX = 20;

/**
 * What is said of a tenant by the admin API. What follows from it (the targets of its class, its share of the
 * pools of its models) is looked up.
 */
export const TenantSettings = LiveTenant.omit({
  tenantId: true,
  targets: true,
  shares: true,
}).extend({
  modelIds: z.array(ModelId).min(1).max(CONFIGURATION_LIMITS.modelsMax),
  /** The same in every pool; absent: as it was, or 1. */
  weight: weight.exactOptional(),
  /** Of every pool of its models; absent: as it was, or nothing. */
  guaranteedRatio: guaranteedRatio.exactOptional(),
  band: band.exactOptional(),
});
export type TenantSettings = z.infer<typeof TenantSettings>;

/** What of a configuration a tenant refers to. */
export interface TenantSurroundings {
  readonly settings: LiveSettings;
  readonly models: ReadonlyMap<string, LiveModel>;
}

/** Makes a tenant of what is said of it. `before` is the tenant as it was, whose targets and shares stay. */
export function toTenant(
  tenantId: LiveTenant["tenantId"],
  found: unknown,
  { settings, models }: TenantSurroundings,
  before?: LiveTenant,
): Validated<LiveTenant> {
  const known = TenantSettings.superRefine(({ className, modelIds }, refinement) => {
    const isKept = className === before?.className;
    if (!isKept && targetsOf(className, settings) === undefined) {
      const names = [...Object.keys(BUILT_IN_CLASSES), ...ownClasses(settings)];
      refinement.addIssue({ path: ["className"], ...unknownName("classes", className, names) });
    }
    for (const [at, modelId] of modelIds.entries()) {
      if (models.has(modelId)) continue;
      refinement.addIssue({
        path: ["modelIds", at],
        ...unknownName("models", modelId, [...models.keys()]),
      });
    }
  });
  const validated = validate(known, found);
  if (validated.kind === "invalid") return validated;
  const { weight: _weight, guaranteedRatio: _ratio, band: _band, ...rest } = validated.value;
  const kept = rest.className === before?.className ? before.targets : undefined;
  const tenant = {
    tenantId,
    ...rest,
    targets: kept ?? targetsOf(rest.className, settings) ?? {},
    shares: sharesOf(validated.value, models, before),
  };
  return validate(LiveTenant, tenant);
}

/** Says which names there are, one that is near first; there may be hundreds. */
function unknownName(things: string, found: string, names: readonly string[]) {
  const known = [...new Set(names)];
  const meant = closestName(found, known);
  const listed = [...new Set([...(meant === undefined ? [] : [meant]), ...known])];
  const more = listed.length > NAMES_LISTED_MAX ? ", …" : "";
  const text = `one of the ${things} ${listed.slice(0, NAMES_LISTED_MAX).join(", ")}${more}`;
  const { error: message, params } = faultOf("invalid_value", text, { isEchoed: true });
  return { code: "custom" as const, message, params };
}

/** What was said of a tenant, as far as it can be said by the admin API. */
export function settingsOfTenant(tenant: LiveTenant): Readonly<Record<string, unknown>> {
  const { tenantId: _id, targets: _targets, shares: _shares, ...settings } = tenant;
  return settings;
}

/** Changes what was said: each member replaces the one of its name, and `null` takes it away (RFC 7396). */
export function mergePatch(
  target: Readonly<Record<string, unknown>>,
  patch: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  const merged = new Map(Object.entries(target));
  for (const [name, value] of Object.entries(patch)) {
    const old = merged.get(name);
    if (value === null) merged.delete(name);
    else merged.set(name, isRecord(value) ? mergePatch(isRecord(old) ? old : {}, value) : value);
  }
  return Object.fromEntries(merged);
}

function sharesOf(
  settings: TenantSettings,
  models: TenantSurroundings["models"],
  before: LiveTenant | undefined,
): LiveShare[] {
  const isAsked = [settings.weight, settings.guaranteedRatio, settings.band].some(
    (value) => value !== undefined,
  );
  const isMoved = settings.modelIds.join() !== before?.modelIds.join();
  if (before !== undefined && !isAsked && !isMoved) return before.shares;
  const poolIds = new Set(
    settings.modelIds.flatMap((modelId) => models.get(modelId)?.poolId ?? []),
  );
  const [usual] = before?.shares ?? [];
  return [...poolIds].map((poolId) => {
    const old = before?.shares.find((share) => share.poolId === poolId);
    return {
      poolId,
      weight: settings.weight ?? (old ?? usual ?? DEFAULT_SHARE).weight,
      // What is guaranteed of another pool was divided among those who use that one.
      guaranteedRatio: settings.guaranteedRatio ?? (old ?? DEFAULT_SHARE).guaranteedRatio,
      band: settings.band ?? (old ?? usual ?? DEFAULT_SHARE).band,
    };
  });
}

function targetsOf(className: string, settings: LiveSettings): SloTargets | undefined {
  const own = settings.classes?.find((candidate) => candidate.className === className);
  if (own !== undefined) return own.targets;
  return Object.hasOwn(BUILT_IN_CLASSES, className) ? BUILT_IN_CLASSES[className] : undefined;
}

function ownClasses({ classes = [] }: LiveSettings): string[] {
  return classes.map(({ className }) => className);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
