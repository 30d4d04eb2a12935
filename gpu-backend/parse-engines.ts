import { join } from "node:path";
import { REPLICA_ROLES, type ReplicaRole } from "../src/protocol/engine-api.ts";
import { problemOfRoles, ROLES_KV_HOST_MIB } from "../src/protocol/problem-of-roles.ts";
import { FLAGS } from "./flags.ts";
import { type GivenFlags, readFlags } from "./read-flags.ts";
import { withoutSlash } from "./server/engine-headers.ts";
import { isWildcard, type ParsedSettings, parseSettings, type Settings } from "./settings.ts";

/** What the engines of one process are started with. */
export type ParsedEngines =
  | { readonly kind: "engines"; readonly engines: readonly Settings[] }
  | Extract<ParsedSettings, { readonly kind: "help" | "invalid" }>;

/** Each has a thread and a model of its own. */
const ENGINES_MAX = 16;
const PORT_MAX = 65_535;

/**
 * Reads the command line of a process: of one engine, or with `--roles` of one a role, on ports that follow each
 * other, each with all others as peers. All that is wrong is told at once, and what is wrong of all only once.
 */
export function parseEngines(
  argv: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): ParsedEngines {
  const parsed = parseSettings(argv, environment);
  const flags = readFlags(argv, FLAGS);
  if (parsed.kind === "help" || flags.texts["roles"] === undefined) {
    return parsed.kind === "settings" ? { kind: "engines", engines: [parsed.settings] } : parsed;
  }
  const roles = flags.texts["roles"].split(",");
  const problems = [...problemsOfRoles(roles, flags)];
  if (parsed.kind === "invalid") problems.push(...parsed.problems);
  if (parsed.kind === "invalid" || problems.length > 0) return { kind: "invalid", problems };
  const engines: Settings[] = [];
  const found = new Set<string>();
  for (const index of roles.keys()) {
    const own = flagsOfEngine(index, roles, { settings: parsed.settings, flags });
    const engine = parseSettings([...argv, ...own], environment);
    if (engine.kind === "settings") engines.push(engine.settings);
    if (engine.kind === "invalid") for (const problem of engine.problems) found.add(problem);
  }
  return found.size > 0 ? { kind: "invalid", problems: [...found] } : { kind: "engines", engines };
}

function problemsOfRoles(roles: readonly string[], { texts, given }: GivenFlags): string[] {
  const problems: string[] = [];
  if (given.has("role")) {
    problems.push("--role: expected without --roles, which says it of each engine");
  }
  if (roles.length < 2 || roles.length > ENGINES_MAX || !roles.every(isRole)) {
    const expected = `2 to ${ENGINES_MAX} of prefill, decode and mixed, with commas between them`;
    problems.push(`--roles: expected ${expected}, found "${roles.join(",")}"`);
  } else {
    const problem = problemOfRoles(roles);
    if (problem !== undefined) problems.push(`--roles: ${problem}`);
  }
  if (texts["port"] === "0") {
    problems.push("--port: expected other than 0 with --roles, whose ports follow it");
  }
  const portMax = PORT_MAX + 1 - roles.length;
  if (Number(texts["port"]) > portMax && Number(texts["port"]) <= PORT_MAX) {
    const found = `found "${texts["port"]}"`;
    problems.push(`--port: expected at most ${portMax} with that many --roles, ${found}`);
  }
  const { host = "", "advertise-url": advertiseUrl } = texts;
  if (advertiseUrl === undefined && isWildcard(host)) {
    problems.push(
      `--advertise-url: expected with --roles, since nobody reaches an engine at ${host}`,
    );
  }
  if (advertiseUrl !== undefined && portOf(advertiseUrl) === undefined) {
    problems.push(
      `--advertise-url: expected with a port, from which those of --roles follow, found "${advertiseUrl}"`,
    );
  }
  return problems;
}

/** What one engine of several is told behind all that was given. */
function flagsOfEngine(
  index: number,
  roles: readonly string[],
  { settings, flags }: { readonly settings: Settings; readonly flags: GivenFlags },
): readonly string[] {
  const { port, kvPeers } = settings;
  const urls = [...roles.keys()].map((other) => urlOf(settings, other));
  const others = urls.filter((_, other) => other !== index);
  const folder = flags.texts["kv-disk"];
  return [
    `--role=${roles[index] ?? ""}`,
    `--port=${port + index}`,
    `--kv-peers=${[...kvPeers, ...others].join(",")}`,
    ...(settings.advertiseUrl === undefined ? [] : [`--advertise-url=${urls[index] ?? ""}`]),
    ...(flags.given.has("kv-host-mib") ? [] : [`--kv-host-mib=${ROLES_KV_HOST_MIB}`]),
    // A folder is of one engine alone.
    ...(folder === undefined ? [] : [`--kv-disk=${join(folder, `${port + index}`)}`]),
  ];
}

/** Where the gateway reaches the engine with this index. */
function urlOf({ host, port, advertiseUrl }: Settings, index: number): string {
  if (advertiseUrl === undefined) {
    return `http://${host.includes(":") ? `[${host}]` : host}:${port + index}`;
  }
  if (index === 0) return advertiseUrl;
  const url = new URL(advertiseUrl);
  url.port = `${(portOf(advertiseUrl) ?? 0) + index}`;
  return withoutSlash(url.href);
}

/** The port that a URL names, also where it is what its scheme has anyway. */
function portOf(url: string): number | undefined {
  const [, port] = /^https?:\/\/[^/?#]*:(\d{1,5})(?:[/?#]|$)/.exec(url) ?? [];
  return port === undefined ? undefined : Number(port);
}

function isRole(role: string): role is ReplicaRole {
  return REPLICA_ROLES.some((known) => known === role);
}
