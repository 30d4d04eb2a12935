import { closestName } from "./closest-name.ts";
import type { SloTargets } from "../slo/targets.ts";
import type { Tightening } from "../slo/tightened.ts";
import { tightened } from "../slo/tightened.ts";
import type { LiveTenant } from "./live-configuration.ts";

/** What a request says of how urgent it is, in the words of the API and in ours. */
export interface AskedPromise extends Tightening {
  /** One of the tenant's classes; it outranks the tier. */
  readonly className?: string;
  readonly serviceTier?: ServiceTier;
}

type ServiceTier = "auto" | "default" | "flex" | "scale" | "priority" | "fast";

/** What a request is promised. */
export interface GivenPromise {
  readonly className: string;
  /** What its class promises, by which it is judged whether that was kept. */
  readonly promised: SloTargets;
  /** By which it is admitted and sent: the same, or tighter where the request asks for that. */
  readonly targets: SloTargets;
  /** As the answer tells it. */
  readonly serviceTier: "default" | "priority" | "flex";
}

export type PromiseVerdict =
  | { readonly kind: "given"; readonly promise: GivenPromise }
  /** The tenant has no such class. `found` was asked for by `by`. */
  | {
      readonly kind: "not-allowed";
      readonly by: "class" | "tier";
      readonly found: string;
      readonly allowed: readonly string[];
      readonly closest: string | undefined;
    };

/** Tiers that stand for a class. All others are the tenant's own class. */
const CLASS_OF_TIER: Partial<Record<ServiceTier, string>> = {
  priority: "interactive",
  fast: "interactive",
  flex: "bulk",
};

/** Resolves what a request asks for: one of its tenant's classes, and targets no looser than that has. */
export function givePromise(
  tenant: Pick<LiveTenant, "className" | "targets" | "classes">,
  { className: asked, serviceTier = "auto", ...wishes }: AskedPromise,
): PromiseVerdict {
  const classOfTier = CLASS_OF_TIER[serviceTier];
  const wanted = asked ?? classOfTier ?? tenant.className;
  const classes = [tenant, ...(tenant.classes ?? [])];
  const found = classes.find(({ className }) => className === wanted);
  if (found === undefined) {
    const allowed = classes.map(({ className }) => className);
    const by = asked === undefined ? "tier" : "class";
    const word = asked ?? serviceTier;
    return { kind: "not-allowed", by, found: word, allowed, closest: closestName(wanted, allowed) };
  }
  const { className, targets: promised } = found;
  const targets = tightened(promised, wishes);
  const tier = className === classOfTier ? toldTier(serviceTier) : "default";
  return { kind: "given", promise: { className, promised, targets, serviceTier: tier } };
}

function toldTier(asked: ServiceTier): GivenPromise["serviceTier"] {
  return asked === "flex" ? "flex" : "priority";
}
