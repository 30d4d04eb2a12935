const NAME_LENGTH_MAX = 64;

/** The name of a key that takes another one's place: `prod`, `prod-2`, `prod-3`. */
export function nextKeyName(name: string): string {
  const [, stem = name, digits = "1"] = /^(.+)-(\d{1,6})$/.exec(name) ?? [];
  const number = `-${Number(digits) + 1}`;
  return `${stem.slice(0, NAME_LENGTH_MAX - number.length)}${number}`;
}
