import { register } from "tsx/esm/api";

// What reads TypeScript on the main thread is not handed on to threads by every Node: 20 does not.
register();
await import("./grammar-thread.ts");
