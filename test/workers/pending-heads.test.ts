import { describe, expect, test } from "vitest";
import { PendingHeads } from "../../workers/pending-heads.ts";

const forEver = (): Promise<never> => new Promise(() => {});

describe("PendingHeads", () => {
  test("lets six heads be waited for at once and no seventh", async () => {
    const heads = new PendingHeads();
    for (let index = 0; index < 5; index += 1) void heads.during(forEver);
    expect(heads.isFull).toBe(false);
    void heads.during(forEver);
    expect(heads.isFull).toBe(true);
    await expect(heads.during(async () => "head")).rejects.toThrow("wait for another one");
  });

  test("counts a connection no longer once its head is there or will not come", async () => {
    const heads = new PendingHeads();
    for (let index = 0; index < 5; index += 1) void heads.during(forEver);
    expect(await heads.during(async () => "head")).toBe("head");
    await expect(heads.during(() => Promise.reject(new Error("reset")))).rejects.toThrow("reset");
    expect(heads.isFull).toBe(false);
  });
});
