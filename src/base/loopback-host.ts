const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/;

/** Says whether a host, as a URL or a flag has it, is reached from this machine alone. */
export function isLoopbackHost(host: string): boolean {
  return LOOPBACK.test(host);
}
