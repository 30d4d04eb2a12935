export { DirectoryObject } from "./directory-object.ts";

export default {
  fetch(): Response {
    return new Response(null, { status: 503 });
  },
};
