// The runner wraps a class's prototype into one more proxy for every instance that is made of it
// (`createProxyPrototypeClass` of @cloudflare/vitest-pool-workers 0.15), and each request makes one: after
// some thousands nearly all time goes into look-ups through them. Here a wrapped one stays as it is.
const wrapped = new WeakSet<object>();

function isOfPrototype(target: object, handler: object): boolean {
  const traps = Reflect.ownKeys(handler);
  return traps.length === 1 && traps[0] === "get" && Object.hasOwn(target, "constructor");
}

globalThis.Proxy = new Proxy(globalThis.Proxy, {
  construct(Wrapper, [target, handler]: [object, object], NewTarget) {
    const ofPrototype = isOfPrototype(target, handler);
    if (ofPrototype && wrapped.has(target)) return target;
    const proxy: object = Reflect.construct(Wrapper, [target, handler], NewTarget);
    if (ofPrototype) wrapped.add(proxy);
    return proxy;
  },
});
