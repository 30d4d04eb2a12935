import { startProgram } from "./start-program.mjs";

await startProgram("engine-thread");
