import * as z from "zod";

const Ipv4 = z.ipv4();
const Ipv6 = z.ipv6();
const MAPPED_IPV4 = /^::ffff:(\d{1,3}(?:\.\d{1,3}){3})$/i;
const GROUPS = 8;
/** Whoever has an IPv6 address has at least as many as these do not tell apart. */
const BLOCK_GROUPS = 4;

/**
 * Names whom an address belongs to: an IPv4 address itself, of IPv6 its /64, all of which one client has.
 * `undefined` for what is no address.
 */
export function addressBlockOf(address: string | undefined): string | undefined {
  if (address === undefined || address.length > 64) return undefined;
  const ipv4 = MAPPED_IPV4.exec(address)?.[1] ?? address;
  if (Ipv4.safeParse(ipv4).success) return ipv4;
  if (!Ipv6.safeParse(address).success) return undefined;
  const [front = "", back] = address.split("::");
  const left = front.split(":").filter((group) => group !== "");
  const right = (back ?? "").split(":").filter((group) => group !== "");
  // Of those that `::` leaves out each is 0; a dotted end stands for two of them.
  const dotted = address.includes(".") ? 1 : 0;
  const zeros = back === undefined ? 0 : GROUPS - left.length - right.length - dotted;
  const groups = [...left, ...Array.from({ length: zeros }, () => "0"), ...right];
  return groups
    .slice(0, BLOCK_GROUPS)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(":");
}
