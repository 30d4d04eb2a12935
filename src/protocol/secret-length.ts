/** The Worker takes no shorter secret, and so nothing of ours makes or hands on one: it could be guessed. */
export const SECRET_LENGTH_MIN = 32;
