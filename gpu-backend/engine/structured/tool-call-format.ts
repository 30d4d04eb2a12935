/** What the bundled model writes around a call, as its chat template tells it to. */
export const TOOL_CALL_MARKER = "<tool_call>";
/** What stands between the marker and the name of the tool, and behind that up to the arguments. */
export const BEFORE_NAME = '{"name": "';
export const BEFORE_ARGUMENTS = '", "arguments": ';
/** What stands behind the arguments. */
export const AFTER_ARGUMENTS = "}</tool_call>";
