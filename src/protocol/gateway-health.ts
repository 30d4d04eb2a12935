/** What a gateway calls itself in `GET /health`, so that nobody takes it for an engine. */
export const GATEWAY_NAME = "sluice-gateway";
