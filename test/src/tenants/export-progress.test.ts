import { describe, expect, test } from "vitest";
import {
  EXPORT_DELAY_MS,
  EXPORT_RETRY_MS_MAX,
  EXPORT_RETRY_MS_MIN,
  ExportProgress,
} from "../../../src/tenants/export-progress.ts";

describe("ExportProgress", () => {
  test("asks for nothing while nothing waits, and waits a little for more to send", () => {
    const progress = new ExportProgress(3);
    expect(progress.nextAtMs(3, 1000)).toBe(Infinity);
    expect(progress.nextAtMs(4, 1000)).toBe(1000 + EXPORT_DELAY_MS);
    progress.sent(4);
    expect(progress.nextAtMs(4, 1000)).toBe(Infinity);
  });

  test("after failures waits longer each time, up to its bound, and not at all after a success", () => {
    const progress = new ExportProgress();
    const delaysMs = Array.from({ length: 14 }, () => {
      progress.failed(0);
      expect(progress.mayTry(progress.nextAtMs(1, 0) - 1)).toBe(false);
      expect(progress.mayTry(progress.nextAtMs(1, 0))).toBe(true);
      return progress.nextAtMs(1, 0);
    });
    expect(delaysMs.slice(0, 3)).toEqual([1, 2, 4].map((times) => times * EXPORT_RETRY_MS_MIN));
    expect(delaysMs.slice(-3)).toEqual([1, 1, 1].map((times) => times * EXPORT_RETRY_MS_MAX));
    progress.sent(1);
    expect([progress.failures, progress.mayTry(0)]).toEqual([0, true]);
    expect(progress.nextAtMs(2, 0)).toBe(EXPORT_DELAY_MS);
  });

  test("passes over what is gone and says how much that was", () => {
    const progress = new ExportProgress(3);
    expect(progress.passOver(4)).toBe(0);
    expect(progress.passOver(10)).toBe(6);
    expect([progress.sentNumber, progress.passOver(10)]).toEqual([9, 0]);
  });
});
