import { describe, expect, test } from "vitest";
import { SessionSticky } from "../../../simulator/policies/session-sticky.ts";
import { chooser, replica, request } from "./policy-fixtures.ts";

const idle = [0, 1, 2, 3].map((index) => replica(index));
const sessions = Array.from({ length: 40 }, (_, number) => request({ route: `session ${number}` }));

describe("SessionSticky", () => {
  test("sends a session where it was sent before, and sessions to all replicas", () => {
    const choose = chooser(new SessionSticky());
    const homes = sessions.map((session) => choose(idle, session));
    expect(new Set(homes).size).toBe(4);
    const loaded = idle.map(({ replicaIndex }) =>
      replica(replicaIndex, { outstanding: 9 - replicaIndex }),
    );
    expect(sessions.map((session) => choose(loaded.toReversed(), session))).toEqual(homes);
  });

  test("moves only the sessions of a replica that leaves", () => {
    const choose = chooser(new SessionSticky());
    const homes = sessions.map((session) => choose(idle, session));
    const without = sessions.map((session) => choose(idle.slice(1), session));
    expect(without.filter((home, index) => homes[index] !== 0 && home !== homes[index])).toEqual(
      [],
    );
  });

  test("passes over who has more than the bound", () => {
    const [session = request()] = sessions;
    const home = chooser(new SessionSticky())(idle, session);
    const loaded = idle.map(({ replicaIndex }) =>
      replica(replicaIndex, { outstanding: replicaIndex === home ? 4 : 2 }),
    );
    expect(chooser(new SessionSticky({ loadRatioMax: 1.25 }))(loaded, session)).not.toBe(home);
    expect(chooser(new SessionSticky({ loadRatioMax: 2 }))(loaded, session)).toBe(home);
  });
});
