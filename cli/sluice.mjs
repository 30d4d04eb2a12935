#!/usr/bin/env node
// Node 20 does not run TypeScript by itself, so the loader is registered before the first .ts file.
import { register } from "tsx/esm/api";

register();
const { main } = await import("./main.ts");
await main();
