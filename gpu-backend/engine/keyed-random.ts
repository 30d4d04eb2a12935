const ROTATIONS = [13, 15, 26, 6, 17, 29, 16, 24] as const;
const ROUNDS = 20;
/** Makes the schedule's third word, so that a key of zeros still mixes (Skein's parity constant). */
const KEY_PARITY = 0x1bd11bda;
const WORD = 2 ** 32;

/**
 * Encrypts a counter of two 32-bit words under a key of two: Threefry-2x32 with 20 rounds
 * (Salmon et al., SC'11). Every output is a pure function of key and counter.
 */
export function threefry2x32(
  key: readonly [number, number],
  counter: readonly [number, number],
): [number, number] {
  const keys = [key[0], key[1], KEY_PARITY ^ key[0] ^ key[1]] as const;
  let left = (counter[0] + keys[0]) | 0;
  let right = (counter[1] + keys[1]) | 0;
  for (let round = 0; round < ROUNDS; round++) {
    const rotation = ROTATIONS[round % 8] ?? 0;
    left = (left + right) | 0;
    right = ((right << rotation) | (right >>> (32 - rotation))) ^ left;
    if (round % 4 === 3) {
      const injection = (round + 1) / 4;
      left = (left + (keys[injection % 3] ?? 0)) | 0;
      right = (right + (keys[(injection + 1) % 3] ?? 0) + injection) | 0;
    }
  }
  return [left >>> 0, right >>> 0];
}

/**
 * Returns a uniform number in [0, 1) that depends on `seed` and `index` alone: integers, the seed from
 * -2^63 to 2^63 and all 64 bits of it a part of the key. There is no state, so nothing that happens
 * between two draws can shift the second.
 */
export function keyedRandom(seed: number, index: number): number {
  const [high, low] = threefry2x32([seed >>> 0, Math.floor(seed / WORD) >>> 0], [index, 0]);
  // 27 and 26 bits fill the 53 of a double evenly.
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
}
