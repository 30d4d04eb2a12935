const SECRET_NAME = /^[A-Z][A-Z0-9_]{0,63}$/;
/** Begins the names of the gateway's own settings: none of its secrets goes to a foreign server. */
const OWN_PREFIX = "SLUICE_";

/** Whether a text may name the secret of the Worker that a pool's replicas are sent. */
export function isSecretName(text: string): boolean {
  return SECRET_NAME.test(text) && !text.startsWith(OWN_PREFIX);
}
