import { RpcTarget } from "cloudflare:workers";
import * as z from "zod";
import { StoredRow } from "../src/tenants/configuration-rows.ts";
import { CONFIGURATION_LIMITS } from "../src/tenants/live-configuration.ts";
import type { Applied, ChangePreview, CommitWish, StagedChange } from "./staged-change.ts";

const Rows = z.array(StoredRow);

/** An upload's side of the Directory. */
export interface UploadLine {
  readonly stage: StagedChange;
  /** To be called once, however the upload ends. */
  readonly onEnd: () => void;
}

/** What became of some rows. */
export type Added =
  | { readonly kind: "added" }
  /** One of them is there already. */
  | { readonly kind: "repeated"; readonly thing: string }
  | { readonly kind: "too-large" };

/**
 * A configuration on its way to the Directory, in as many pieces as it takes: nobody holds all of it.
 * Whoever goes without a word leaves nothing behind.
 */
export class ConfigurationUpload extends RpcTarget {
  readonly #line: UploadLine;
  #bytesLeft: number = CONFIGURATION_LIMITS.bytesMax;
  #isOver = false;

  constructor(line: UploadLine) {
    super();
    this.#line = line;
  }

  /** Adds rows, as a JSON list. Throws when they are no rows. */
  async add(text: string): Promise<Added> {
    const rows = Rows.parse(JSON.parse(text));
    this.#bytesLeft -= text.length;
    if (this.#bytesLeft < 0) return { kind: "too-large" };
    const [repeat] = this.#line.stage.repeated(rows);
    if (repeat !== undefined) {
      const name = repeat.kind === "key" ? `${repeat.tenantId}/${repeat.name}` : repeat.id;
      return { kind: "repeated", thing: `${repeat.kind} '${name}'` };
    }
    this.#line.stage.add(rows);
    return { kind: "added" };
  }

  /** Ends the upload and tells what it would change. */
  async preview(countMax: number): Promise<ChangePreview> {
    const preview = this.#line.stage.preview(countMax);
    this.#end();
    return preview;
  }

  /** Ends the upload: what was added is the live configuration, all of it or nothing. */
  async commit(wish: CommitWish): Promise<Applied> {
    const applied = this.#line.stage.commit(wish, Date.now());
    this.#end();
    return applied;
  }

  [Symbol.dispose](): void {
    this.#end();
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#line.stage.discard();
    this.#line.onEnd();
  }
}
