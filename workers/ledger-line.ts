import type { RequestId } from "../src/protocol/ids.ts";
import type { UsageEnding } from "../src/tenants/usage-ending.ts";
import type { UsageRow } from "../src/tenants/usage-rows.ts";
import type { HeldPermit } from "./acquire-permit.ts";
import { logLine } from "./log.ts";
import type { SloTold } from "./slo-told.ts";
import { withinMs } from "./within-ms.ts";

/** What of a permit can be called from afar. */
interface PermitStub extends Disposable {
  recorded(): Promise<void>;
  release(ending: UsageEnding, told: SloTold | undefined): Promise<void>;
}

/** What of a tenant's object is called once the permit has gone with a former life of it. */
interface TenantStub {
  record(row: UsageRow): Promise<void>;
  settle(row: UsageRow, ending: UsageEnding, told: SloTold | undefined): Promise<void>;
  checkpoint(requestId: RequestId, outputTokens: number): Promise<void>;
}

/** What a {@link LedgerLine} connects. */
export interface LedgerLineEnds {
  readonly row: UsageRow;
  readonly permit: PermitStub;
  /** Finds the tenant's object anew: a stub is of no use any more once its object has died. */
  readonly tenantOf: () => TenantStub;
  /** Output that has come so far. */
  readonly outputTokens: () => number;
}

/** A third of the silence after which a call is taken to be gone. */
const CHECKPOINT_MS = 10_000;
/** A disk that takes longer is broken, and no answer shall wait for it. */
const DISK_MS_MAX = 5_000;

/**
 * A call's line to its row in the ledger. When the tenant's object dies under it, the next one is told
 * instead; telling twice counts once. What cannot be told in time is logged, with its numbers, and holds
 * no answer up.
 */
export class LedgerLine implements HeldPermit {
  readonly #ends: LedgerLineEnds;
  readonly #checkpoints: ReturnType<typeof setInterval>;
  #recorded: Promise<void> | undefined;
  #released: Promise<void> | undefined;

  constructor(ends: LedgerLineEnds) {
    this.#ends = ends;
    this.#checkpoints = setInterval(() => void this.#checkpoint(), CHECKPOINT_MS);
  }

  get recorded(): Promise<void> {
    const { row, permit, tenantOf } = this.#ends;
    this.#recorded ??= this.#tell(
      "usage-not-recorded",
      () => permit.recorded(),
      () => tenantOf().record(row),
    );
    return this.#recorded;
  }

  release(ending: UsageEnding, told: SloTold | undefined): Promise<void> {
    this.#released ??= this.#settle(ending, told);
    return this.#released;
  }

  async #settle(ending: UsageEnding, told: SloTold | undefined): Promise<void> {
    clearInterval(this.#checkpoints);
    const { row, permit, tenantOf } = this.#ends;
    await this.#tell(
      "usage-not-settled",
      () => permit.release(ending, told),
      () => tenantOf().settle(row, ending, told),
      ending,
    );
    permit[Symbol.dispose]();
  }

  async #checkpoint(): Promise<void> {
    const { row, tenantOf, outputTokens } = this.#ends;
    // The next one says more than this one could.
    await tenantOf()
      .checkpoint(row.requestId, outputTokens())
      .catch(() => {});
  }

  async #tell(
    event: string,
    tell: () => Promise<void>,
    tellNext: () => Promise<void>,
    ending?: UsageEnding,
  ): Promise<void> {
    try {
      await withinMs(tell().catch(tellNext).catch(tellNext), DISK_MS_MAX);
    } catch (error) {
      const { requestId, keyName, modelId: askedModelId } = this.#ends.row;
      const { served, ...use } = ending ?? {};
      const modelId = served?.modelId ?? askedModelId;
      logLine("error", event, { requestId, keyName, modelId, ...use, details: String(error) });
    }
  }
}
