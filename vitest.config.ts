import { cloudflareTest } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";

/** Tests in Node and those inside workerd share the workers, so none is idle while the other waits. */
const UNIT_GROUP = { groupOrder: 1 };
/** Twice what two cores have: many of these tests wait for a clock and not for a core. */
const UNIT_WORKERS = 4;

const PROMISES = "test/simulation/promises/**/*.test.ts";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "node",
          include: [
            "test/{architecture,constant-time,security-table}.test.ts",
            "test/{src,gpu-backend,simulator,simulation,cli,bench}/**/*.test.ts",
          ],
          exclude: [PROMISES],
          globalSetup: ["test/support/compiled-engine.ts"],
          sequence: UNIT_GROUP,
          maxWorkers: UNIT_WORKERS,
          // A process for each file costs more than most files. Modules are evaluated anew for each
          // all the same; what a test does to the process is undone after it.
          isolate: false,
          restoreMocks: true,
          unstubEnvs: true,
          testTimeout: 30_000,
        },
      },
      {
        plugins: [
          cloudflareTest({
            main: "./workers/edge.ts",
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              cf: false,
              // Every value begins with the prefix that production refuses, or is a constant.
              bindings: {
                SLUICE_MODE: "local",
                SLUICE_KEY_PEPPER: "sluice-local-key-pepper-of-the-tests",
                SLUICE_CACHE_MASTER: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc",
                SLUICE_ADMIN_KEY: "sluice-local-admin-key-of-the-tests",
                SLUICE_REPLICA_SECRET: "sluice-local-replica-secret-of-the-tests",
                QA_POOL_TOKEN: "sluice-local-token-of-a-pool",
                QA_POOL_TOKEN_WITH_BLANK: "sluice-local token",
                QA_ACCESS_ID: "sluice-local-id.access",
                QA_ACCESS_SECRET: "sluice-local-secret-of-access",
              },
              // Stands for a VPC service: what goes through it says so.
              serviceBindings: { QA_VPC: "vpc" },
              // By names of their own, since nothing is exported unless it is asked for.
              queueProducers: { TEST_QUEUE: "usage" },
              d1Databases: { TEST_DATABASE: "usage" },
              // Whoever reads the queue: as far as a test can tell, it writes down what it was given.
              workers: [
                {
                  name: "vpc",
                  modules: true,
                  script: `export default {
                    fetch(request) {
                      const headers = new Headers(request.headers);
                      headers.set("x-came-by", "vpc");
                      return fetch(new Request(request, { headers }));
                    },
                  };`,
                  compatibilityDate: "2026-04-26",
                },
                {
                  name: "reader",
                  modules: true,
                  script: `export default {
                    async queue({ messages }, { TEST_DATABASE: database }) {
                      await database.exec("CREATE TABLE IF NOT EXISTS received (body TEXT)");
                      const insert = database.prepare("INSERT INTO received VALUES (?)");
                      await database.batch(messages.map(({ body }) => insert.bind(JSON.stringify(body))));
                    },
                  };`,
                  compatibilityDate: "2026-04-26",
                  queueConsumers: { usage: { maxBatchSize: 100, maxBatchTimeout: 0 } },
                  d1Databases: { TEST_DATABASE: "usage" },
                },
              ],
            },
          }),
        ],
        test: {
          name: "workers",
          include: ["test/{workers,security}/**/*.test.ts"],
          globalSetup: ["test/support/scripted-upstream.ts"],
          sequence: UNIT_GROUP,
          maxWorkers: UNIT_WORKERS,
          // One workerd for many files, whose storage is emptied before each.
          isolate: false,
          // Intercepted, each line is a message to the runner, one that an object may not live to send:
          // the runner would wait for it for ever.
          disableConsoleIntercept: true,
          setupFiles: [
            "test/workers/support/shallow-prototypes.ts",
            "test/workers/support/empty-storage.ts",
          ],
          restoreMocks: true,
          testTimeout: 30_000,
        },
      },
      {
        test: {
          // Statistics of thousands of requests: as much work as half of all other tests. `npm test`
          // leaves them to `npm run test:promises`; CI runs both.
          name: "promises",
          include: [PROMISES],
          sequence: { groupOrder: 3 },
          maxWorkers: 2,
          isolate: false,
        },
      },
      {
        test: {
          name: "e2e",
          include: ["test/e2e/**/*.test.ts"],
          // The programs of a file share the cores with those of two others, and with no other test.
          sequence: { groupOrder: 2 },
          maxWorkers: 3,
          testTimeout: 60_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
