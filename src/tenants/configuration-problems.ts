import type * as z from "zod";
import { closestName } from "./closest-name.ts";
import { CacheSection } from "./cache-section.ts";
import { ClassSection } from "./class-section.ts";
import {
  ConfigurationFile,
  CorsSection,
  DefaultsSection,
  KeySection,
  LimitsSection,
  ShareSection,
  TenantSection,
  TimeoutsSection,
} from "./configuration-file.ts";
import { OverloadStepSection } from "./overload-section.ts";
import {
  AccessSection,
  AuthSection,
  HealthSection,
  ModelSection,
  PoolSection,
  PriceSection,
  ReplicaSection,
} from "./pool-section.ts";
import { JwtSection } from "./jwt-issuer.ts";
import type { DocumentPath } from "./references.ts";

/** One thing that is wrong with a configuration, where it stands and what would be right. */
export interface ConfigurationProblem {
  readonly path: DocumentPath;
  readonly message: string;
}

interface Section {
  readonly known: readonly string[];
  /** Keys of the product that this version does not act on. Ignoring one would break a promise. */
  readonly notYet: readonly string[];
}

/** Sections by their path, where `*` stands for a chosen name or an index. */
const SECTIONS: ReadonlyMap<string, Section> = new Map([
  ["", { known: Object.keys(ConfigurationFile.shape), notYet: [] }],
  ["models.*", { known: Object.keys(ModelSection.shape), notYet: [] }],
  ["models.*.price_per_million_tokens", { known: Object.keys(PriceSection.shape), notYet: [] }],
  ["pools.*", { known: Object.keys(PoolSection.shape), notYet: [] }],
  ["pools.*.replicas.*", { known: Object.keys(ReplicaSection.shape), notYet: [] }],
  ["pools.*.auth", { known: Object.keys(AuthSection.shape), notYet: [] }],
  ["pools.*.access", { known: Object.keys(AccessSection.shape), notYet: [] }],
  ["pools.*.health", { known: Object.keys(HealthSection.shape), notYet: [] }],
  ["classes.*", { known: Object.keys(ClassSection.shape), notYet: [] }],
  ["defaults", { known: Object.keys(DefaultsSection.shape), notYet: [] }],
  ["tenants.*", { known: Object.keys(TenantSection.shape), notYet: [] }],
  ["tenants.*.overload.*", { known: Object.keys(OverloadStepSection.shape), notYet: [] }],
  ["tenants.*.cache", { known: Object.keys(CacheSection.shape), notYet: [] }],
  ["tenants.*.cors", { known: Object.keys(CorsSection.shape), notYet: [] }],
  ["jwt.*", { known: Object.keys(JwtSection.shape), notYet: [] }],
  ["tenants.*.share", { known: Object.keys(ShareSection.shape), notYet: [] }],
  ["tenants.*.keys.*", { known: Object.keys(KeySection.shape), notYet: [] }],
  ["tenants.*.timeouts", { known: Object.keys(TimeoutsSection.shape), notYet: [] }],
  ["tenants.*.limits", { known: Object.keys(LimitsSection.shape), notYet: [] }],
]);

/** What these hold must not appear in a message, a log or a terminal. */
const SECRET_KEYS: ReadonlySet<string | number | undefined> = new Set([
  "key",
  "hash",
  // Where a name belongs the secret itself may stand by mistake.
  "secret",
  "client_id",
  "client_secret",
]);

const CREDENTIALS = /\/\/.*@/;

const ECHO_CHARACTERS_MAX = 60;
const NAMES_LISTED_MAX = 10;

/** Says in our words what a schema of the file found; one problem for each key that is unknown. */
export function toProblems(issue: z.core.$ZodIssue): ConfigurationProblem[] {
  const path = issue.path.filter((step) => typeof step !== "symbol");
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => unrecognizedKey(path, key));
  }
  const found = SECRET_KEYS.has(path.at(-1)) ? describeSecret(issue.input) : describe(issue.input);
  const message = `expected ${issue.message}, found ${found}`;
  return [{ path, message: `${message}${meantChoice(issue)}` }];
}

/** Says that a name points nowhere, and where it was probably meant to point. */
export function unknownName(what: string, name: string, known: readonly string[]): string {
  return `expected the name of a ${what}, found ${quote(name)}: ${suggest(name, known, known)}`;
}

/** Which of a few words a wrong one was probably meant to be. */
function meantChoice(issue: z.core.$ZodIssue): string {
  const choices: unknown = issue.code === "custom" ? issue.params?.["choices"] : undefined;
  if (!Array.isArray(choices) || typeof issue.input !== "string") return "";
  const meant = closestName(issue.input, choices.map(String));
  return meant === undefined ? "" : `: did you mean '${meant}'?`;
}

function unrecognizedKey(sectionPath: DocumentPath, key: string): ConfigurationProblem {
  const path = [...sectionPath, key];
  const { known, notYet } = sectionAt(sectionPath);
  if (notYet.includes(key)) return { path, message: `'${key}' is not supported yet` };
  const suggestion = suggest(key, [...known, ...notYet], known);
  return { path, message: `unknown key ${quote(key)}: ${suggestion}` };
}

function sectionAt(path: DocumentPath): Section {
  // What is in the defaults stands there as it does in a tenant.
  const isDefault = path[0] === "defaults" && path.length > 1;
  const whole = isDefault ? ["tenants", "*", ...path.slice(1)] : path;
  // The second step is always a name of the writer's choice: models, pools, classes and tenants.
  const pattern = whole.map((step, at) => (at === 1 || typeof step === "number" ? "*" : step));
  return SECTIONS.get(pattern.join(".")) ?? { known: [], notYet: [] };
}

function suggest(name: string, candidates: readonly string[], offered: readonly string[]): string {
  const closest = closestName(name, candidates);
  if (closest !== undefined) return `did you mean '${closest}'?`;
  const listed = offered.slice(0, NAMES_LISTED_MAX).join(", ");
  return `known: ${listed === "" ? "none" : listed}${offered.length > NAMES_LISTED_MAX ? ", …" : ""}`;
}

function describe(found: unknown): string {
  if (found === undefined || found === null) return "nothing";
  if (typeof found === "string") return quote(found.replace(CREDENTIALS, "//…@"));
  if (Array.isArray(found)) return found.length === 0 ? "an empty list" : "a list";
  if (typeof found === "object") {
    const size = found instanceof Map ? found.size : Object.keys(found).length;
    return size === 0 ? "an empty mapping" : "a mapping";
  }
  return typeof found === "number" || typeof found === "boolean" ? `${found}` : typeof found;
}

function describeSecret(found: unknown): string {
  if (typeof found !== "string" || found === "") return describe(found);
  return found.length === 1 ? "one other character" : `${found.length} other characters`;
}

function quote(text: string): string {
  const isLong = text.length > ECHO_CHARACTERS_MAX;
  return JSON.stringify(isLong ? `${text.slice(0, ECHO_CHARACTERS_MAX)}…` : text);
}
