import { logLine } from "./log.ts";

/**
 * Gives something back to its object, once, and lets go of the stub. That the object is away must
 * not spoil an answer that is there already: what is not given back expires.
 */
export function giveBackOnce<Said extends unknown[]>(
  stub: Disposable,
  giveBack: (...said: Said) => Promise<void>,
): (...said: Said) => Promise<void> {
  let done: Promise<void> | undefined;
  const perform = async (...said: Said): Promise<void> => {
    try {
      await giveBack(...said);
    } catch (error) {
      logLine("error", "not-given-back", { details: String(error) });
    } finally {
      stub[Symbol.dispose]();
    }
  };
  return (...said) => (done ??= perform(...said));
}
