/**
 * What a pool does beyond sending a request somewhere. All are on; a test or a benchmark switches
 * one off to show what it is for.
 */
export interface Mechanisms {
  /** Refuses what cannot be in time. Off: everything goes to the replica that suffers least. */
  readonly admission: boolean;
  /** Widens the forecast by how wrong it was. Off: the forecast is believed as it is. */
  readonly margin: boolean;
  /** Guards those that run already. Off: a request is admitted if its own targets hold. */
  readonly residents: boolean;
  /** Guarantees shares. Off: every request counts as in profile. */
  readonly guarantees: boolean;
  /** Charges a request while it runs for what it goes on beyond its forecast. Off: at its end. */
  readonly revision: boolean;
  /** Serves tenants by cost over weight. Off: the earliest deadline of all comes first. */
  readonly fairness: boolean;
  /** Drops requests when they become infeasible. Off: they are served late. */
  readonly drop: boolean;
  /** Lets a request wait for room. Off: what does not fit now is refused. */
  readonly queue: boolean;
  /** Takes excess back that has not begun. */
  readonly displacement: boolean;
  /** Adds what was sent since the last report to the load. Off: a server that is not ours has what it says. */
  readonly ledger: boolean;
  /** Holds what replicas tell of their steps against what comes. Off: they are believed. */
  readonly doubt: boolean;
  /** Ejects replicas that fail. */
  readonly ejection: boolean;
  /** Holds it against no replica when a tenant's requests fail wherever they are sent. */
  readonly blame: boolean;
  /** Sends a second copy of a request that is late. */
  readonly hedging: boolean;
  /** Lets priority bands age. */
  readonly aging: boolean;
}

export const ALL_MECHANISMS: Mechanisms = {
  admission: true,
  margin: true,
  residents: true,
  guarantees: true,
  revision: true,
  fairness: true,
  drop: true,
  queue: true,
  displacement: true,
  ledger: true,
  doubt: true,
  ejection: true,
  blame: true,
  hedging: true,
  aging: true,
};
