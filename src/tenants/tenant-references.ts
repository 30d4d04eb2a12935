import type { ConfigurationProblem } from "./configuration-problems.ts";
import type { Part } from "./document-part.ts";
import { child, itemsOf, nameOf } from "./document-part.ts";
import { inherited } from "./inheritance.ts";
import { isMapping } from "./notation.ts";
import { mentionsOf, repeats, unresolved } from "./reference-checks.ts";
import { formatPath } from "./references.ts";
import { parseCount, parseRatio } from "./units.ts";

/** The parts of a document that a tenant's own parts refer to. */
interface TenantReferences {
  readonly models: readonly Part[];
  readonly tenants: readonly Part[];
  readonly defaults: Part;
  readonly classNames: readonly string[];
}

/** Finds what is wrong with tenants that no single entry shows, also with what they inherit. */
export function findTenantProblems(document: TenantReferences): ConfigurationProblem[] {
  const { models, tenants, defaults, classNames } = document;
  const holders = [defaults, ...tenants];
  const modelNames = models.map(nameOf);
  const problems = [
    ...unresolved(
      "model",
      holders.flatMap((holder) => [...listed(holder, "models"), ...fallbacksOf(holder)]),
      modelNames,
    ),
    ...unresolved(
      "class",
      holders.flatMap((holder) => [child(holder, "class"), ...listed(holder, "classes")]),
      classNames,
    ),
    ...holders.flatMap((holder) => repeats(listed(holder, "models"))),
    ...holders.flatMap((holder) => repeats(listed(holder, "classes"))),
    ...holders.flatMap(ladderProblems),
    ...tenants.flatMap((tenant) => missing(tenant, defaults)),
    ...tenants.flatMap((tenant) => fallbacksInVain(tenant, defaults)),
    ...tenants.flatMap((tenant) => unpricedModels(tenant, document)),
  ];
  return withoutRepeats(problems);
}

function listed(holder: Part, name: string): Part[] {
  return itemsOf(child(holder, name));
}

/** What is wrong with the defaults is wrong with each tenant that has it, and is told once. */
function withoutRepeats(problems: readonly ConfigurationProblem[]): ConfigurationProblem[] {
  const byText = new Map(problems.map((one) => [`${formatPath(one.path)}: ${one.message}`, one]));
  return [...byText.values()];
}

function fallbacksOf(holder: Part): Part[] {
  return itemsOf(child(holder, "overload")).map((step) => child(step, "fallback_model"));
}

function missing(tenant: Part, defaults: Part): ConfigurationProblem[] {
  const needed = [
    ["models", "a list of models"],
    ["class", "the name of a class"],
  ] as const;
  return needed.flatMap(([name, what]) => {
    if (!isMapping(tenant.value)) return [];
    if (inherited(tenant, defaults, name).value !== undefined) return [];
    const message = `expected ${what}, here or in defaults, found nothing`;
    return [{ path: child(tenant, name).path, message }];
  });
}

/** Steps that a request could never come to, or that would change nothing for it. */
function ladderProblems(holder: Part): ConfigurationProblem[] {
  const steps = itemsOf(child(holder, "overload"));
  const problems = repeats(fallbacksOf(holder));
  let [ratioBefore, tokensBefore] = [-1, Infinity];
  for (const [index, step] of steps.entries()) {
    if (step.value === "reject" && index < steps.length - 1) {
      const message = "expected reject as the last step: nothing comes behind it";
      problems.push({ path: step.path, message });
    }
    const [queue, clamp] = [child(step, "queue"), child(step, "clamp_max_tokens")];
    const ratio = queue.value === 0 ? 0 : parsed(queue.value, parseRatio);
    if (ratio !== undefined && ratio <= ratioBefore) {
      const message = "expected a larger share than that of the queue step before";
      problems.push({ path: queue.path, message });
    }
    const tokens = typeof clamp.value === "number" ? clamp.value : parsed(clamp.value, parseCount);
    if (tokens !== undefined && tokens >= tokensBefore) {
      const message = "expected fewer tokens than those of the clamp_max_tokens before";
      problems.push({ path: clamp.path, message });
    }
    ratioBefore = ratio ?? ratioBefore;
    tokensBefore = tokens ?? tokensBefore;
  }
  return problems;
}

/** A request is never sent to the model that it has been refused by. */
function fallbacksInVain(tenant: Part, defaults: Part): ConfigurationProblem[] {
  const own = mentionsOf(itemsOf(inherited(tenant, defaults, "models")));
  const ladder = inherited(tenant, defaults, "overload");
  const fallbacks = mentionsOf(itemsOf(ladder).map((step) => child(step, "fallback_model")));
  return fallbacks.flatMap(({ name, path }) => {
    if (own.length !== 1 || own[0]?.name !== name) return [];
    const message = `expected another model than ${name}, the only one of tenant ${nameOf(tenant)}`;
    return [{ path, message }];
  });
}

/** What has no price cannot be kept within a spend. */
function unpricedModels(
  tenant: Part,
  { models, defaults }: TenantReferences,
): ConfigurationProblem[] {
  const spend = inherited(tenant, defaults, "limits", "spend_per_month");
  if (spend.value === undefined) return [];
  const unpriced = new Set(
    models
      .filter((model) => child(model, "price_per_million_tokens").value === undefined)
      .map(nameOf),
  );
  const ladder = itemsOf(inherited(tenant, defaults, "overload"));
  const used = [
    ...itemsOf(inherited(tenant, defaults, "models")),
    ...ladder.map((step) => child(step, "fallback_model")),
  ];
  return mentionsOf(used).flatMap(({ name, path }) => {
    if (!unpriced.has(name)) return [];
    const price = formatPath(["models", name, "price_per_million_tokens"]);
    const message = `expected a model with a price, since limits has spend_per_month: ${price} is missing`;
    return [{ path, message }];
  });
}

function parsed<Value>(
  value: unknown,
  parse: (text: string) => Value | undefined,
): Value | undefined {
  return typeof value === "string" ? parse(value) : undefined;
}
