import { createServer } from "node:net";

/** A port that a part of the stack is about to listen on. */
export interface PortNeed {
  readonly host: string;
  readonly port: number;
  /** Who needs it: "the gateway", "engine replica-1". */
  readonly needer: string;
  /** How the user chooses another port. */
  readonly remedy: string;
  /** How the user chooses another address. */
  readonly hostRemedy: string;
}

/** Says of every port that cannot be had which one it is, who needs it and what to do. */
export async function findPortProblems(needs: readonly PortNeed[]): Promise<readonly string[]> {
  const problems: string[] = [];
  const neederByAddress = new Map<string, string>();
  for (const need of needs) {
    const address = `${need.host}:${need.port}`;
    const other = neederByAddress.get(address);
    neederByAddress.set(address, need.needer);
    if (other !== undefined) {
      problems.push(describePortProblem(need, `is also the port of ${other}`));
      continue;
    }
    // One after the other: two of our own probes on one port would disturb each other.
    // oxlint-disable-next-line no-await-in-loop
    const error = await probePort(need);
    if (error !== undefined) problems.push(describe(need, error));
  }
  return problems;
}

/** Says that somebody took the port after all, in the moment between the check and its use. */
export function describeTakenPort(need: PortNeed): string {
  return describePortProblem(need, TAKEN);
}

/** Listens for an instant; returns why that cannot be, or undefined. */
function probePort({ host, port }: PortNeed): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", resolve);
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(undefined)));
  });
}

const TAKEN = "is taken by another program";

const PORT_FAULTS: ReadonlyMap<string | undefined, string> = new Map([
  ["EADDRINUSE", TAKEN],
  ["EACCES", "may not be used by this user"],
]);

// Another port would not help here.
const HOST_FAULTS: ReadonlyMap<string | undefined, string> = new Map([
  ["EADDRNOTAVAIL", "is not one that this machine has"],
  ["EINVAL", "is not one that can be listened on"],
  ["ENOTFOUND", "is a name that this machine does not know"],
  ["EAI_AGAIN", "is a name that this machine does not know"],
]);

function describe(need: PortNeed, error: NodeJS.ErrnoException): string {
  const hostFault = HOST_FAULTS.get(error.code);
  if (hostFault !== undefined) {
    return `Address ${need.host}, which ${need.needer} needs, ${hostFault}: ${need.hostRemedy}`;
  }
  const fault = PORT_FAULTS.get(error.code) ?? `cannot be listened on (${error.message})`;
  return describePortProblem(need, fault);
}

function describePortProblem({ host, port, needer, remedy }: PortNeed, fault: string): string {
  return `Port ${port} on ${host}, which ${needer} needs, ${fault}: ${remedy}`;
}
