import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import type * as Library from "@mlc-ai/web-xgrammar";
import { assert } from "../../../src/base/assert.ts";
import type { WasmMemory } from "../executor/wasm-memory.ts";

/** As much as the library may take for one grammar: real ones need a tenth. */
const MEMORY_BYTES_MAX = 256 * 1024 * 1024;
const PAGE_BYTES = 65_536;

/**
 * Loads the grammar library into this thread, which must be there for nothing else.
 *
 * The package calls itself an ES module but is a script for browsers. Run as a module it finds no
 * `exports`, so it hangs what it has on the global object, and it looks for its own address in
 * `location`. Its memory is bounded here, because it grows to 2 GiB otherwise.
 */
export async function loadGrammarLibrary(): Promise<typeof Library> {
  boundMemory();
  const { resolve } = createRequire(import.meta.url);
  const address = pathToFileURL(resolve("@mlc-ai/web-xgrammar")).href;
  Object.defineProperty(globalThis, "location", { value: { href: address } });
  await import("@mlc-ai/web-xgrammar");
  assert(globalThis.xgrammar !== undefined, "the grammar library has run");
  return globalThis.xgrammar;
}

declare global {
  /** Set by the library's script. */
  var xgrammar: typeof Library | undefined;
}

/** A refused growth ends the library's call the way exhausted memory does. */
function boundMemory(): void {
  const prototype: WasmMemory = WebAssembly.Memory.prototype;
  // oxlint-disable-next-line typescript/unbound-method -- it is called with its `this` below
  const { grow } = prototype;
  const growWithinBound = function (this: WasmMemory, pages: number): number {
    if (this.buffer.byteLength + pages * PAGE_BYTES > MEMORY_BYTES_MAX) {
      throw new RangeError("The grammar is too large");
    }
    return grow.call(this, pages);
  };
  Object.defineProperty(prototype, "grow", { value: growWithinBound });
}
