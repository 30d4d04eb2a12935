// Loaded before the engine's program: its engine thread is held behind the first token, until SIGCONT.
import { EngineHold } from "./engine-hold.mjs";

const hold = new EngineHold();
hold.intercept();
hold.hold();
process.on("SIGCONT", () => hold.letGo());
