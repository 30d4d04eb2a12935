import { describe, expect, test } from "vitest";
import { ProtobufWriter } from "../../../../gpu-backend/engine/executor/protobuf-writer.ts";

const hex = (writer: ProtobufWriter) => Buffer.from(writer.toBytes()).toString("hex");

// The first, third and fourth are the examples of the format's own documentation.
describe("ProtobufWriter", () => {
  test("an integer is a varint, seven bits a byte", () => {
    expect(hex(new ProtobufWriter().integer(1, 150))).toBe("089601");
    expect(hex(new ProtobufWriter().integer(1, 0))).toBe("0800");
    expect(hex(new ProtobufWriter().integer(1, 127))).toBe("087f");
    expect(hex(new ProtobufWriter().integer(1, 128))).toBe("088001");
  });

  test("a negative integer takes ten bytes", () => {
    expect(hex(new ProtobufWriter().integer(1, -2n))).toBe("08feffffffffffffffff01");
  });

  test("a text is its UTF-8 with a length", () => {
    expect(hex(new ProtobufWriter().text(2, "testing"))).toBe("120774657374696e67");
    expect(hex(new ProtobufWriter().text(2, "é"))).toBe("1202c3a9");
  });

  test("a message in a message has a length and its bytes", () => {
    const inner = new ProtobufWriter().integer(1, 150);
    expect(hex(new ProtobufWriter().message(3, inner))).toBe("1a03089601");
  });

  test("a float is four bytes, the lowest first", () => {
    expect(hex(new ProtobufWriter().float(2, 1.5))).toBe("150000c03f");
  });

  test("a field number above 15 takes a second byte", () => {
    expect(hex(new ProtobufWriter().integer(20, 1))).toBe("a00101");
  });

  test("fields follow one another in the order of writing", () => {
    const writer = new ProtobufWriter().integer(2, 1).bytes(1, Uint8Array.of(7, 8)).integer(2, 3);
    expect(hex(writer)).toBe("10010a0207081003");
  });
});
