import * as fc from "fast-check";
import { expect, test } from "vitest";
import { EventQueue } from "../../simulator/event-queue.ts";

test("events come in order of their instants, and of one instant in the order they were added", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 0, max: 8 })), (instants) => {
      const queue = new EventQueue();
      const happened: number[] = [];
      for (const [index, atMs] of instants.entries()) queue.add(atMs, () => happened.push(index));
      while (queue.size > 0) queue.take()?.happen();
      const inOrder = instants
        .map((atMs, index) => ({ atMs, index }))
        .toSorted((a, b) => a.atMs - b.atMs || a.index - b.index);
      expect(happened).toEqual(inOrder.map(({ index }) => index));
    }),
  );
});

test("the queue's next instant is that of the event it would give", () => {
  const queue = new EventQueue();
  expect(queue.nextAtMs).toBe(Infinity);
  expect(queue.take()).toBeUndefined();
  queue.add(7, () => {});
  queue.add(3, () => {});
  expect(queue.nextAtMs).toBe(3);
  expect(queue.take()?.atMs).toBe(3);
  expect(queue.nextAtMs).toBe(7);
});

test("an event without an instant is a bug", () => {
  expect(() => new EventQueue().add(NaN, () => {})).toThrow("an event has an instant");
});
