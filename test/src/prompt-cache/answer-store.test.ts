import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { AnswerStore } from "../../../src/prompt-cache/answer-store.ts";
import { TenantId } from "../../../src/protocol/ids.ts";

const [ANN, BOB] = [TenantId.parse("ann"), TenantId.parse("bob")];

describe("AnswerStore", () => {
  test("gives an answer back to the tenant that it was kept for, and to no other", () => {
    const store = new AnswerStore();
    store.put(ANN, "k", "yes", 0);
    expect([store.get(ANN, "k", 1), store.get(BOB, "k", 1)]).toEqual(["yes", undefined]);
    store.put(ANN, "k", "no", 2);
    expect(store.get(ANN, "k", 3)).toBe("no");
    store.checkInvariants();
  });

  test("forgets an answer after its time, however often it was asked for", () => {
    const store = new AnswerStore({ ttlMs: 100 });
    store.put(ANN, "k", "yes", 0);
    expect(store.get(ANN, "k", 99)).toBe("yes");
    expect(store.get(ANN, "k", 100)).toBeUndefined();
    store.checkInvariants();
    expect(store.get(ANN, "k", 0)).toBeUndefined();
  });

  test("keeps no answer that is too long", () => {
    const store = new AnswerStore({ answerCharactersMax: 3 });
    store.put(ANN, "k", "yess", 0);
    store.put(ANN, "l", "yes", 0);
    expect([store.get(ANN, "k", 1), store.get(ANN, "l", 1)]).toEqual([undefined, "yes"]);
  });

  test("forgets what a tenant has not asked for longest, and nothing of another one", () => {
    const store = new AnswerStore({ tenantCharactersMax: 8 });
    store.put(BOB, "b", "1234", 0);
    for (const key of ["k", "l"]) store.put(ANN, key, "1234", 0);
    store.get(ANN, "k", 1);
    store.put(ANN, "m", "1234", 2);
    store.checkInvariants();
    expect(["k", "l", "m"].map((key) => store.get(ANN, key, 3) !== undefined)).toEqual([
      true,
      false,
      true,
    ]);
    expect(store.get(BOB, "b", 3)).toBe("1234");
  });

  test("makes room at the expense of the tenant that has been away longest", () => {
    const store = new AnswerStore({ charactersMax: 8, tenantCharactersMax: 8 });
    store.put(ANN, "k", "1234", 0);
    store.put(BOB, "k", "1234", 1);
    store.put(BOB, "l", "1234", 2);
    store.checkInvariants();
    expect([store.get(ANN, "k", 3), store.get(BOB, "k", 3)]).toEqual([undefined, "1234"]);
  });

  test("stays within its bounds, whatever is kept and asked for", () => {
    const tenant = fc.constantFrom(ANN, BOB, TenantId.parse("cleo"));
    const key = fc.constantFrom("k", "l", "m");
    const call = fc.record({ tenant, key, text: fc.option(fc.string({ maxLength: 9 })) });
    fc.assert(
      fc.property(fc.array(call, { maxLength: 60 }), (calls) => {
        const options = { charactersMax: 20, tenantCharactersMax: 12, answerCharactersMax: 8 };
        const store = new AnswerStore({ ...options, ttlMs: 20 });
        const last = new Map<string, string>();
        let wrong = 0;
        for (const [nowMs, { tenant: tenantId, key: name, text }] of calls.entries()) {
          if (text === null) {
            const found = store.get(tenantId, name, nowMs);
            wrong += Number(found !== undefined && found !== last.get(`${tenantId} ${name}`));
          } else {
            store.put(tenantId, name, text, nowMs);
            if (text.length <= options.answerCharactersMax) last.set(`${tenantId} ${name}`, text);
          }
          store.checkInvariants();
        }
        expect(wrong).toBe(0);
      }),
    );
  });
});
