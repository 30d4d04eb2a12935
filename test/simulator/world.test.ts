import { describe, expect, test } from "vitest";
import { World } from "../../simulator/world.ts";

const BOUNDS = { endAtMs: 100, eventsMax: 1000 };

function draw(seed: number, purpose: string): number[] {
  const random = new World(seed).randomFor(purpose);
  return [random(), random(), random()];
}

describe("World", () => {
  test("time moves from event to event and ends where it is told to", () => {
    const world = new World(1);
    const instants: number[] = [];
    world.after(40, () => {
      instants.push(world.nowMs);
      world.after(5, () => instants.push(world.nowMs));
    });
    world.at(100, () => instants.push(world.nowMs));
    world.at(101, () => instants.push(world.nowMs));
    world.runToEnd(BOUNDS);
    expect(instants).toEqual([40, 45, 100]);
    expect(world.nowMs).toBe(100);
  });

  test("a run goes on where the last one ended", () => {
    const world = new World(1);
    const instants: number[] = [];
    world.at(150, () => instants.push(world.nowMs));
    world.runToEnd(BOUNDS);
    world.runToEnd({ ...BOUNDS, endAtMs: 200 });
    expect(instants).toEqual([150]);
  });

  test("a loop without end is found out", () => {
    const world = new World(1);
    const again = () => world.after(0, again);
    again();
    expect(() => world.runToEnd(BOUNDS)).toThrow("within 1000 events");
  });

  test("nothing can be scheduled in the past", () => {
    const world = new World(1);
    world.runToEnd(BOUNDS);
    expect(() => world.at(99, () => {})).toThrow("nothing happens in the past");
  });

  test("watchers look after every event, and see what it did", () => {
    const world = new World(1);
    let happened = 0;
    const seen: number[] = [];
    world.afterEachEvent(() => seen.push(happened));
    for (let count = 0; count < 3; count += 1) world.after(count, () => (happened += 1));
    world.runToEnd(BOUNDS);
    expect(seen).toEqual([1, 2, 3]);
  });

  test("chance is one sequence for each purpose, the same for the same seed", () => {
    expect(draw(1, "steps")).toEqual(draw(1, "steps"));
    expect(draw(1, "steps")).not.toEqual(draw(2, "steps"));
    expect(draw(1, "steps")).not.toEqual(draw(1, "faults"));
  });

  test("what one purpose draws does not shift what another one gets", () => {
    const calm = new World(1).randomFor("steps");
    const world = new World(1);
    world.randomFor("faults")();
    expect(world.randomFor("steps")()).toBe(calm());
  });
});
