import { PoolId } from "../src/protocol/ids.ts";

/** What a pool's object answers to a replica that dials in while the pool is closed, by its operator's word. */
export const CLOSED_STATUS = 423;

/** Returns the pool that the last segment of a URL's path names, if that can be one. */
export function poolOfUrl(url: string): PoolId | undefined {
  const segment = new URL(url).pathname.split("/").at(-1) ?? "";
  try {
    return PoolId.safeParse(decodeURIComponent(segment)).data;
  } catch {
    return undefined;
  }
}
