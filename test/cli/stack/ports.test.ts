import { createServer } from "node:net";
import { afterEach, expect, test } from "vitest";
import { describeTakenPort, findPortProblems } from "../../../cli/stack/ports.ts";
import { takeFreePorts } from "../../support/free-ports.ts";

const open: ReturnType<typeof createServer>[] = [];
afterEach(() => open.splice(0).forEach((listener) => listener.close()));

async function occupy(): Promise<number> {
  const [port = 0] = await takeFreePorts(1);
  const listener = createServer();
  open.push(listener);
  await new Promise<void>((resolve) => listener.listen(port, "127.0.0.1", resolve));
  return port;
}

const need = (port: number, needer = "the gateway", host = "127.0.0.1") => ({
  host,
  port,
  needer,
  remedy: "choose another with --port",
  hostRemedy: "choose another with --host",
});

test("a free port is no problem, and is free still", async () => {
  const [port = 0] = await takeFreePorts(1);
  expect(await findPortProblems([need(port)])).toEqual([]);
  expect(await findPortProblems([need(port)])).toEqual([]);
});

test("a taken port is named with who needs it and what to do", async () => {
  const port = await occupy();
  expect(await findPortProblems([need(port)])).toEqual([
    `Port ${port} on 127.0.0.1, which the gateway needs, is taken by another program: choose another with --port`,
  ]);
});

test("every problem is told at once", async () => {
  const [first, second] = [await occupy(), await occupy()];
  expect(await findPortProblems([need(first), need(second, "engine replica-1")])).toHaveLength(2);
});

test("two parts of one stack cannot share a port", async () => {
  const [port = 0] = await takeFreePorts(1);
  const [problem] = await findPortProblems([need(port), need(port, "engine replica-1")]);
  expect(problem).toContain("engine replica-1 needs, is also the port of the gateway");
});

test("an address that this machine does not have is what must change, not the port", async () => {
  const [port = 0] = await takeFreePorts(1);
  expect(await findPortProblems([need(port, "the gateway", "192.0.2.1")])).toEqual([
    "Address 192.0.2.1, which the gateway needs, is not one that this machine has: choose another with --host",
  ]);
});

test("a name that nobody knows is what must change, not the port", async () => {
  const [port = 0] = await takeFreePorts(1);
  expect(await findPortProblems([need(port, "the gateway", "no-such-host.invalid")])).toEqual([
    "Address no-such-host.invalid, which the gateway needs, is a name that this machine does not know: choose another with --host",
  ]);
});

test("a port that was lost after the check is told as one that was taken before it", async () => {
  const port = await occupy();
  expect(await findPortProblems([need(port)])).toEqual([describeTakenPort(need(port))]);
});
