import type { Applied, Changes } from "../src/tenants/admin-answers.ts";

const SIGNS = { added: "+", changed: "~", removed: "-" } as const;

/** Says what differs, a line for each thing and one for each field of it. */
export function changesText({ counts, changes, problems = [] }: Changes): string[] {
  const told = changes.flatMap(({ kind, name, change, fields = [] }) => [
    `${SIGNS[change]} ${kind} ${kind === "settings" ? "" : name}`.trimEnd(),
    ...fields.map(
      ({ path, before = "nothing", after = "nothing" }) => `    ${path}: ${before} -> ${after}`,
    ),
  ]);
  const all = counts.added + counts.changed + counts.removed;
  const more = all > changes.length ? [`… and ${all - changes.length} more`] : [];
  return [...told, ...more, countsText(counts), ...problems.map((problem) => `! ${problem}`)];
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
