/** What the bundled model writes around a call, as its chat template tells it to. */
export const TOOL_CALL_START = "<tool_call>";
export const TOOL_CALL_END = "</tool_call>";
