import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { copyState } from "../../../src/base/plain-state.ts";
import { Residents } from "../../../src/replicas/residents.ts";
import { attendedPairsOf } from "../../../src/step-cost/step-model.ts";
import { aSentRequest } from "../../support/replica-builders.ts";

function residentsOf(...requests: readonly ReturnType<typeof aSentRequest>[]): Residents {
  const residents = new Residents();
  for (const request of requests) residents.add(request);
  return residents;
}

describe("Residents", () => {
  test("a request is in the ledger until it is acknowledged", () => {
    const residents = residentsOf(
      aSentRequest(3, { promptTokens: 100, cachedTokens: 40 }),
      aSentRequest(5, { promptTokens: 10 }),
    );
    expect(residents.ledger).toEqual({
      requests: 2,
      prefillTokens: 70,
      prefillPairs: attendedPairsOf(40, 60) + attendedPairsOf(0, 10),
      promptTokens: 110,
      expectedTokens: 210,
    });
    residents.acknowledge(4);
    expect(residents.ledger).toMatchObject({ requests: 1, prefillTokens: 10 });
    expect(residents.reported).toMatchObject({ requests: 1, expectedTokens: 150 });
    residents.checkInvariants();
  });

  test("a first token says that the prompt is computed, before any report does", () => {
    const residents = residentsOf(aSentRequest(1));
    residents.started(1, 70);
    residents.started(1, 90);
    expect(residents.ledger).toMatchObject({ requests: 1, prefillTokens: 0, prefillPairs: 0 });
    expect(residents.get(1)?.firstTokenAtMs).toBe(70);
    residents.checkInvariants();
  });

  test("news of a request that is gone changes nothing", () => {
    const residents = residentsOf(aSentRequest(1));
    residents.remove(1);
    residents.started(1, 5);
    residents.acknowledge(1);
    expect(residents.size).toBe(0);
    residents.checkInvariants();
  });

  test("what was not sent yet cannot have arrived, whatever a report says", () => {
    const residents = residentsOf(aSentRequest(1));
    residents.acknowledge(1_000_000);
    residents.add(aSentRequest(2));
    expect(residents.ledger.requests).toBe(1);
    residents.checkInvariants();
  });

  test("the tightest target is that of whoever is there", () => {
    const residents = residentsOf(
      aSentRequest(1, { tpotMs: 50, tbtMs: 200 }),
      aSentRequest(2, { tpotMs: 30 }),
      aSentRequest(3),
    );
    expect([residents.tightestTpotMs, residents.tightestTbtMs]).toEqual([30, 200]);
    residents.remove(2);
    expect(residents.tightestTpotMs).toBe(50);
    residents.remove(1);
    expect([residents.tightestTpotMs, residents.tightestTbtMs]).toEqual([Infinity, Infinity]);
  });

  test("a cached beginning is never longer than its prompt", () => {
    const residents = residentsOf(aSentRequest(1, { promptTokens: 9.2, cachedTokens: 12 }));
    expect(residents.ledger).toMatchObject({ promptTokens: 10, prefillTokens: 0 });
  });

  test("the number of a dispatch is greater than all before it, whatever became of them", () => {
    const residents = residentsOf(aSentRequest(2));
    residents.clear();
    expect(() => residents.add(aSentRequest(2))).toThrow("numbers of dispatches rise");
  });

  test("whatever happens, its sums and targets are those of who is there, and its state can be copied", () => {
    const event = fc.record({
      kind: fc.constantFrom("add", "add", "started", "acknowledge", "remove", "clear"),
      pick: fc.nat(1000),
      promptTokens: fc.double({ min: 1, max: 1e6, noNaN: true }),
      cachedTokens: fc.double({ min: 0, max: 1e6, noNaN: true }),
      targetMs: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
    });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), (events) => {
        const residents = new Residents();
        let number = 0;
        for (const { kind, pick, promptTokens, cachedTokens, targetMs } of events) {
          const numbers = [...residents].map(({ dispatchNumber }) => dispatchNumber);
          const picked = numbers[pick % Math.max(1, numbers.length)];
          if (kind === "add") {
            const targets = { tpotMs: targetMs, tbtMs: targetMs };
            number += 1 + (pick % 3);
            residents.add(aSentRequest(number, { promptTokens, cachedTokens, ...targets }));
          } else if (kind === "clear") {
            if (pick % 10 === 0) residents.clear();
          } else if (kind === "acknowledge") {
            residents.acknowledge(pick % (number + 2));
          } else if (picked !== undefined) {
            if (kind === "started") residents.started(picked, 1);
            else residents.remove(picked);
          }
          residents.checkInvariants();
          const targets = [...residents].map(({ tpotMs }) => tpotMs ?? Infinity);
          expect(residents.tightestTpotMs).toBe(Math.min(Infinity, ...targets));
          const revived = new Residents(copyState(residents.state));
          expect(revived.ledger).toEqual(residents.ledger);
          expect(revived.reported).toEqual(residents.reported);
        }
      }),
    );
  });
});
