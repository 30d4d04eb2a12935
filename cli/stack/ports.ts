import { createServer } from "node:net";

/** A port that a part of the stack is about to listen on. */
export interface PortNeed {
  readonly host: string;
  readonly port: number;
  /** Who needs it: "the gateway", "engine replica-1". */
  readonly needer: string;
  /** How the user chooses another one. */
  readonly remedy: string;
}

/** Says of every port that cannot be had which one it is, who needs it and what to do. */
export async function findPortProblems(needs: readonly PortNeed[]): Promise<readonly string[]> {
  const problems: string[] = [];
  const neederByAddress = new Map<string, string>();
  for (const { host, port, needer, remedy } of needs) {
    const address = `${host}:${port}`;
    const other = neederByAddress.get(address);
    neederByAddress.set(address, needer);
    const fault =
      other === undefined
        ? // One after the other: two of our own probes on one port would disturb each other.
          // oxlint-disable-next-line no-await-in-loop
          await probePort(host, port)
        : `is also the port of ${other}`;
    if (fault !== undefined) {
      problems.push(`Port ${port} on ${host}, which ${needer} needs, ${fault}: ${remedy}`);
    }
  }
  return problems;
}

/** Listens for an instant; returns what is wrong with the port, or undefined. */
function probePort(host: string, port: number): Promise<string | undefined> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(describe(error)));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
}

const FAULTS: ReadonlyMap<string | undefined, string> = new Map([
  ["EADDRINUSE", "is taken by another program"],
  ["EACCES", "may not be used by this user"],
  ["EADDRNOTAVAIL", "is of an address that this machine does not have"],
  ["ENOTFOUND", "is of a name that this machine does not know"],
]);

const describe = (error: NodeJS.ErrnoException) =>
  FAULTS.get(error.code) ?? `cannot be listened on (${error.message})`;
