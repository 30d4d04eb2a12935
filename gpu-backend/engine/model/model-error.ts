/**
 * A model directory that cannot be served: a file is absent, broken, or asks for something this
 * engine does not compute. The message is for the operator and says what to do.
 */
export class ModelError extends Error {
  override readonly name = "ModelError";
}
