export { DirectoryObject } from "./directory-object.ts";
export { PoolObject } from "./pool-object.ts";
export { TenantObject } from "./tenant-object.ts";

export default {
  fetch(): Response {
    return new Response(null, { status: 503 });
  },
};
