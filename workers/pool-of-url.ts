import { PoolId } from "../src/protocol/ids.ts";

/** Returns the pool that the last segment of a URL's path names, if that can be one. */
export function poolOfUrl(url: string): PoolId | undefined {
  const segment = new URL(url).pathname.split("/").at(-1) ?? "";
  try {
    return PoolId.safeParse(decodeURIComponent(segment)).data;
  } catch {
    return undefined;
  }
}
