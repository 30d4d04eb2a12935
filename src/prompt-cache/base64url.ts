const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/** Encodes bytes as base64url without padding (RFC 4648 §5). */
export function encodeBase64Url(bytes: Uint8Array): string {
  let text = "";
  for (let offset = 0; offset < bytes.length; offset += 3) {
    const group = bytes.subarray(offset, offset + 3);
    const [first = 0, second = 0, third = 0] = group;
    const bits = (first << 16) | (second << 8) | third;
    // n bytes fill n + 1 characters; the rest of a last group would be padding.
    for (let index = 0; index <= group.length; index += 1) {
      text += ALPHABET.charAt((bits >>> (18 - 6 * index)) & 63);
    }
  }
  return text;
}
