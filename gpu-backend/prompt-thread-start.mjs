import { startProgram } from "./start-program.mjs";

await startProgram("prompt-thread");
