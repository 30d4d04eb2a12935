/**
 * The most urgent that a request can be to an engine that orders by what it is told; 0 is the least. Ten steps in all: so few that no
 * two are far enough apart for SGLang to stop a running answer for a newer one (10 apart by default).
 */
export const URGENCY_MAX = 9;
