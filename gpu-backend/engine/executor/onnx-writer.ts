import { assert } from "../../../src/base/assert.ts";
import { ProtobufWriter } from "./protobuf-writer.ts";

/** Element types as `TensorProto.DataType` numbers them. */
export const ELEMENT_TYPES = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7 } as const;
export type ElementType = keyof typeof ELEMENT_TYPES;

/** A fixed size, or the name of one that is known only when the graph runs. */
export type Dimension = number | string;

/** An operator's attribute; which of ONNX's many kinds it is must be said. */
type Attribute =
  | { readonly kind: "integer"; readonly value: number }
  | { readonly kind: "float"; readonly value: number };

/** What an operator is beside its inputs. Outputs that are not named get a name of their own. */
export interface OperatorOptions {
  readonly attributes?: Readonly<Record<string, Attribute>>;
  /** Names of the outputs; an empty name marks an optional output that is not wanted. */
  readonly outputs?: readonly string[];
  /** `com.microsoft` for the operators that ONNX Runtime adds to the standard. */
  readonly domain?: "" | "com.microsoft";
}

const ONNX_OPSET = 21;
const MICROSOFT_OPSET = 1;
const ONNX_IR_VERSION = 10;

/** Bytes of one element. */
export const ELEMENT_BYTES: Record<ElementType, number> = {
  float32: 4,
  uint8: 1,
  int8: 1,
  int32: 4,
  int64: 8,
};

/**
 * An ONNX graph under construction; `toModel` yields the bytes that ONNX Runtime loads.
 *
 * It writes the few messages of `onnx.proto` that our segments need. The numbers of the fields are
 * those of that file.
 */
export class OnnxGraph {
  readonly #operators: ProtobufWriter[] = [];
  readonly #constants: ProtobufWriter[] = [];
  readonly #inputs: ProtobufWriter[] = [];
  readonly #outputs: ProtobufWriter[] = [];
  #namesGiven = 0;

  /** Declares an input of the graph and returns its name. */
  input(name: string, type: ElementType, dimensions: readonly Dimension[]): string {
    this.#inputs.push(valueInfo(name, type, dimensions));
    return name;
  }

  /** Declares a value as output of the graph; some operator must yield it under this name. */
  output(name: string, type: ElementType, dimensions: readonly Dimension[]): void {
    this.#outputs.push(valueInfo(name, type, dimensions));
  }

  /** Stores a tensor in the graph and returns its name. `values` must not change before `toModel`. */
  constant(type: ElementType, shape: readonly number[], values: ArrayBufferView): string {
    const elements = shape.reduce((product, size) => product * size, 1);
    assert(
      values.byteLength === elements * ELEMENT_BYTES[type],
      `a ${type} tensor of shape [${shape.join(", ")}] has ${values.byteLength} bytes`,
    );
    const name = this.#newName("constant");
    const tensor = new ProtobufWriter();
    for (const size of shape) tensor.integer(1, size);
    tensor.integer(2, ELEMENT_TYPES[type]).text(8, name);
    tensor.bytes(9, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
    this.#constants.push(tensor);
    return name;
  }

  /** Adds an operator and returns the name of its first output. */
  apply(operator: string, inputs: readonly string[], options: OperatorOptions = {}): string {
    const outputs = options.outputs ?? [this.#newName(operator)];
    const writer = new ProtobufWriter();
    for (const input of inputs) writer.text(1, input);
    for (const output of outputs) writer.text(2, output);
    writer.text(4, operator);
    for (const [name, attribute] of Object.entries(options.attributes ?? {})) {
      writer.message(5, encodeAttribute(name, attribute));
    }
    if (options.domain) writer.text(7, options.domain);
    this.#operators.push(writer);
    const first = outputs[0];
    assert(first !== undefined && first !== "", `${operator} has no first output`);
    return first;
  }

  /** The whole model, encoded. */
  toModel(): Uint8Array {
    const graph = new ProtobufWriter();
    for (const operator of this.#operators) graph.message(1, operator);
    graph.text(2, "segment");
    for (const constant of this.#constants) graph.message(5, constant);
    for (const input of this.#inputs) graph.message(11, input);
    for (const output of this.#outputs) graph.message(12, output);
    return new ProtobufWriter()
      .integer(1, ONNX_IR_VERSION)
      .text(2, "sluice")
      .message(7, graph)
      .message(8, operatorSet("", ONNX_OPSET))
      .message(8, operatorSet("com.microsoft", MICROSOFT_OPSET))
      .toBytes();
  }

  #newName(stem: string): string {
    this.#namesGiven += 1;
    return `${stem}_${this.#namesGiven}`;
  }
}

function valueInfo(
  name: string,
  type: ElementType,
  dimensions: readonly Dimension[],
): ProtobufWriter {
  const shape = new ProtobufWriter();
  for (const dimension of dimensions) {
    const writer = new ProtobufWriter();
    if (typeof dimension === "number") writer.integer(1, dimension);
    else writer.text(2, dimension);
    shape.message(1, writer);
  }
  const tensorType = new ProtobufWriter().integer(1, ELEMENT_TYPES[type]).message(2, shape);
  return new ProtobufWriter().text(1, name).message(2, new ProtobufWriter().message(1, tensorType));
}

function encodeAttribute(name: string, attribute: Attribute): ProtobufWriter {
  const writer = new ProtobufWriter().text(1, name);
  return attribute.kind === "float"
    ? writer.float(2, attribute.value).integer(20, 1)
    : writer.integer(3, attribute.value).integer(20, 2);
}

function operatorSet(domain: string, version: number): ProtobufWriter {
  return new ProtobufWriter().text(1, domain).integer(2, version);
}
