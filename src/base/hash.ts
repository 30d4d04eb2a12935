/**
 * Hashes text to an unsigned 32-bit number, the same on every platform: FNV-1a over its UTF-16 code
 * units. Quick and evenly spread, but anybody can find a collision: never for keys that must not meet.
 */
export function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    hash = Math.imul(hash ^ (unit & 0xff), 0x01000193);
    hash = Math.imul(hash ^ (unit >>> 8), 0x01000193);
  }
  return hash >>> 0;
}

/** Mixes 32 bits so that each bit of the input moves half of the output's (MurmurHash3's `fmix32`). */
export function mix32(bits: number): number {
  let mixed = bits;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
