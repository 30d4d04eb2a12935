import type { UsageLine } from "./usage-line.ts";
import type { Env } from "./env.ts";

/** A counted request with whose it is. */
export interface TenantUsageLine extends UsageLine {
  readonly tenant: string;
  /** Which of its objects has counted it, under a number of its own. */
  readonly shard: number;
}

/** Something outside that is told every counted request. */
export interface UsageSink {
  /** Its progress is stored under this name. */
  readonly name: "queue" | "database";
  /** Resolves when all of them are there; what rejects may have got there all the same. */
  readonly send: (lines: readonly TenantUsageLine[]) => Promise<void>;
}

/** The sinks that the Worker is bound to; none of them unless the operator has bound one. */
export function usageSinksOf({ USAGE_QUEUE: queue, USAGE_DB: database }: Env): UsageSink[] {
  return [
    ...(queue === undefined ? [] : [queueSink(queue)]),
    ...(database === undefined ? [] : [databaseSink(database)]),
  ];
}

function queueSink(queue: Queue<TenantUsageLine>): UsageSink {
  return {
    name: "queue",
    send: async (lines) => {
      await queue.sendBatch(lines.map((body) => ({ body, contentType: "json" })));
    },
  };
}

const SCHEMA = `CREATE TABLE IF NOT EXISTS sluice_usage (
  request_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, shard INTEGER NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL,
  model TEXT NOT NULL, began_at TEXT NOT NULL, settled_at TEXT NOT NULL, how TEXT NOT NULL,
  prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL,
  estimated INTEGER NOT NULL, spend TEXT NOT NULL
) WITHOUT ROWID`;

const COLUMNS = [
  "request_id",
  "tenant",
  "shard",
  "number",
  "key",
  "model",
  "began_at",
  "settled_at",
  "how",
  "prompt_tokens",
  "completion_tokens",
  "cached_tokens",
  "estimated",
  "spend",
] as const satisfies (keyof TenantUsageLine)[];

/** A statement may have 100 parameters: as one text of JSON a batch is one of them. What is there stays. */
const INSERT =
  `INSERT INTO sluice_usage (${COLUMNS.join(", ")}) ` +
  `SELECT ${COLUMNS.map((name) => `value ->> '${name}'`).join(", ")} FROM json_each(?1) WHERE true ` +
  "ON CONFLICT (request_id) DO NOTHING";

function databaseSink(database: D1Database): UsageSink {
  let hasTable = false;
  return {
    name: "database",
    send: async (lines) => {
      const insert = database.prepare(INSERT).bind(JSON.stringify(lines));
      const statements = hasTable ? [insert] : [database.prepare(SCHEMA), insert];
      // Until it is known to have worked: somebody may have dropped the table.
      hasTable = false;
      await database.batch(statements);
      hasTable = true;
    },
  };
}
