import type * as z from "zod";
import { UsageSummary } from "../../src/tenants/admin-answers.ts";
import { callAdmin, inPath } from "../admin-client.ts";
import { ADMIN_ENVIRONMENT, ADMIN_FLAGS, findGateway } from "../admin-flags.ts";
import type { Command } from "../command.ts";
import { EXIT_CODES, WrongUse } from "../command.ts";
import { parseWords, toHelpLines } from "../flags.ts";
import { toColumns } from "../verbs.ts";

/** `sluice usage`: what a tenant has used. */
export const usageCommand: Command = {
  name: "usage",
  synopsis: "TENANT [flags]",
  summary: "Tell what a tenant has used, key by key",
  help: `Tells what each key of TENANT has used for as long as there is a ledger, and the tenant in this month.

${toHelpLines(ADMIN_FLAGS)}

${ADMIN_ENVIRONMENT}`,
  async run(words, terminal) {
    const { values: flags, positionals } = parseWords(words, ADMIN_FLAGS, 1);
    const [tenant] = positionals;
    if (tenant === undefined) throw new WrongUse("Expected a word for TENANT");
    const { access } = findGateway(flags);
    const usage = await callAdmin(access, `/tenants/${inPath(tenant)}/usage/totals`, UsageSummary);
    const lines = flags.json ? [JSON.stringify(usage)] : usageText(usage);
    for (const line of lines) terminal.print(line);
    return EXIT_CODES.ok;
  },
};

function usageText({
  tenantId,
  openRequests,
  month,
  keys,
}: z.output<typeof UsageSummary>): string[] {
  const rows = keys.map((key) => [
    key.name,
    String(key.requests),
    String(key.promptTokens),
    String(key.cachedTokens),
    String(key.outputTokens),
    String(key.estimatedRequests),
    key.spend,
  ]);
  const heads = ["key", "requests", "prompt", "cached", "output", "estimated", "spend"];
  return [
    ...toColumns([heads, ...rows]),
    `${tenantId} in ${month.month}: ${month.tokens} tokens and ${month.reservedTokens} reserved, ` +
      `spend ${month.spend} and ${month.reservedSpend} reserved, ${openRequests} requests under way`,
  ];
}
