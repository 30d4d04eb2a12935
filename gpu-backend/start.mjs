// The program of an engine: `node gpu-backend/start.mjs --help` tells its flags.
import { startProgram } from "./start-program.mjs";

await startProgram("main");
