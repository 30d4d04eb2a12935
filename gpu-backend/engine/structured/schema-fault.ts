/**
 * Thrown where a schema cannot be followed: it is broken (`invalid_value`), or asks for something
 * that a grammar of ours does not say (`unsupported_value`). `path` leads to the place.
 */
export class SchemaFault extends Error {
  override readonly name = "SchemaFault";
  readonly code: "invalid_value" | "unsupported_value";
  readonly path: string;

  constructor(code: SchemaFault["code"], path: string, message: string) {
    super(message);
    this.code = code;
    this.path = path;
  }
}
