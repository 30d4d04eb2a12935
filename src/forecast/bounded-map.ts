/**
 * The entry of a key, made if absent, which becomes the newest of a map that keeps its `sizeMax` newest
 * keys: a map in which every use goes through here has the longest unused key first.
 */
export function renewEntry<Key, Value>(
  map: Map<Key, Value>,
  key: Key,
  sizeMax: number,
  create: () => Value,
): Value {
  const known = map.get(key);
  const value = known ?? create();
  if (known !== undefined) {
    map.delete(key);
  } else if (map.size >= sizeMax) {
    const [oldest] = map.keys();
    if (oldest !== undefined) map.delete(oldest);
  }
  map.set(key, value);
  return value;
}
