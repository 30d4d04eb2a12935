import { reset } from "cloudflare:test";
import { beforeAll } from "vitest";

// Files share a runtime, which is as in production, but each begins with nothing stored.
beforeAll(reset);
