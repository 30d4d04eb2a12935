const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"] as const;

/** A size as people read it, with three digits at least. */
export function bytesText(byteLength: number): string {
  let size = byteLength;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${UNITS[unit]}`;
}
