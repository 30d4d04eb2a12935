import type { Applied, Changes } from "../src/tenants/admin-answers.ts";
import { FIELDS_MAX } from "../src/tenants/configuration-changes.ts";
import { fieldText } from "./file-words.ts";

const SIGNS = { added: "+", changed: "~", removed: "-" } as const;

/** Things whose names are told where what became of them is not the question. */
const NAMES_MAX = 20;

type ThingChange = Changes["changes"][number];

/** Says what differs, a line for each thing and one for each field of it. */
export function changesText({ counts, changes, problems = [], ...compared }: Changes): string[] {
  const trouble = problems.map((problem) => `! ${problem}`);
  const all = totalOf(counts);
  if (all === 0) return [sameText(compared), ...trouble];
  const told = changes.flatMap((change) => [nameText(change), ...fieldLines(change)]);
  return [...told, ...moreText(all - changes.length), countsText(counts), ...trouble];
}

/** Names what differs, a line for each thing, as far as it is little. */
export function changedNames({ counts, changes }: Changes): string[] {
  return namesOf(changes, totalOf(counts));
}

/** Names what goes; of very much the gateway tells only the beginning. */
export function removalNames(removals: readonly ThingChange[]): string[] {
  return namesOf(removals, removals.length);
}

function namesOf(changes: readonly ThingChange[], count: number): string[] {
  const told = changes.slice(0, NAMES_MAX);
  return [...told.map(nameText), ...moreText(count - told.length)];
}

/** Those of the changes by which somebody is locked out. */
export function lockedOut({ changes }: Changes): ThingChange[] {
  return changes.filter(
    ({ kind, change }) => change === "removed" && (kind === "tenant" || kind === "key"),
  );
}

function sameText({ from, to, version }: Partial<Changes>): string {
  if (version !== undefined)
    return `No difference: version ${version}, which is live, has all of it`;
  if (from === to) return `No difference: version ${from} is the live one`;
  return `No difference between version ${from} and version ${to}`;
}

function nameText({ kind, name, change, issuedKeys = 0 }: ThingChange): string {
  const keys = issuedKeys === 1 ? "an issued key" : `${issuedKeys} issued keys`;
  const thing = kind === "settings" ? kind : `${kind} ${name}`;
  return `${SIGNS[change]} ${thing}${issuedKeys === 0 ? "" : `, and ${keys}`}`;
}

function fieldLines({ kind, fields = [] }: ThingChange): string[] {
  const lines = fields.flatMap((field) => fieldText(kind, field) ?? []);
  const more = fields.length < FIELDS_MAX ? [] : ["…"];
  return [...new Set(lines), ...more].map((line) => `    ${line}`);
}

function moreText(count: number): string[] {
  return count > 0 ? [`… and ${count} more`] : [];
}

function totalOf({ added, changed, removed }: Changes["counts"]): number {
  return added + changed + removed;
}

/** `2 added, 1 changed, 0 removed` */
export function countsText({ added, changed, removed }: Changes["counts"]): string {
  return `${added} added, ${changed} changed, ${removed} removed`;
}

/** Says which version is live since a change. */
export function appliedText({ version, isChanged, changes }: Applied): string {
  if (!isChanged) return `version ${version}, which is live already`;
  return `version ${version}${changes === undefined ? "" : `: ${countsText(changes)}`}`;
}
