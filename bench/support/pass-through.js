/** The least that a gateway under workerd can be: it hands every request on and every answer back. */
export default {
  fetch(request, { UPSTREAM }) {
    return fetch(new Request(UPSTREAM + new URL(request.url).pathname, request));
  },
};
