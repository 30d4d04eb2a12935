import { createServer, type ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import { applyUntilHeard } from "../../../cli/stack/apply-until-heard.ts";
import type { LiveConfiguration } from "../../../src/tenants/live-configuration.ts";
import { listenOnLoopback } from "../../support/listen-on-loopback.ts";

const CONFIGURATION: LiveConfiguration = {
  models: [],
  pools: [],
  tenants: [],
  keys: [],
};
const NEVER = new AbortController().signal;
const APPLIED = { version: 1, isChanged: true, changes: { added: 0, changed: 0, removed: 0 } };

/** Answers each request as the next of these does, the last for all that follow. */
async function gatewayThat(...answers: ((response: ServerResponse) => void)[]) {
  let asked = 0;
  const server = createServer((request, response) => {
    request.resume();
    const answer = answers[Math.min(asked, answers.length - 1)];
    asked += 1;
    answer?.(response);
  });
  const { url, close } = await listenOnLoopback(server);
  onTestFinished(close);
  return { admin: { gatewayUrl: url, adminKey: "key" }, asked: () => asked };
}

const swallow = () => {};
const reset = (response: ServerResponse) => void response.destroy();
const apply = (response: ServerResponse) =>
  void response.writeHead(200).end(JSON.stringify(APPLIED));
const refuse = (response: ServerResponse) =>
  void response
    .writeHead(400)
    .end(JSON.stringify({ error: { message: "no", type: "invalid_request_error", code: "x" } }));

test("a configuration of which nothing is heard is applied again", async () => {
  const gateway = await gatewayThat(swallow, reset, apply);
  await applyUntilHeard(gateway.admin, CONFIGURATION, NEVER, 200);
  expect(gateway.asked()).toBe(3);
});

test("one that is refused is not", async () => {
  const gateway = await gatewayThat(refuse, apply);
  await expect(applyUntilHeard(gateway.admin, CONFIGURATION, NEVER)).rejects.toThrow(/refused/);
  expect(gateway.asked()).toBe(1);
});

test("it is given up with the start", async () => {
  const gateway = await gatewayThat(reset);
  const over = new AbortController();
  const applying = applyUntilHeard(gateway.admin, CONFIGURATION, over.signal);
  over.abort(new Error("The gateway died"));
  await expect(applying).rejects.toThrow("The gateway died");
});
