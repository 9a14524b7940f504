// The functions of a WebAssembly module, taken apart as far as its local variables. For `order.mjs` and `locals.mjs`.

const [TYPES, FUNCTIONS, CODE] = [1, 3, 10];
const [LOCAL_GET, LOCAL_TEE] = [0x20, 0x22];

/** How many numbers follow an instruction's byte; undefined if it is none of those, or has more to it. */
function numbersOf(code) {
  if (code >= 0x02 && code <= 0x04) return 1; // block, loop, if
  if ([0x0c, 0x0d, 0x10, 0x3f, 0x40, 0x41, 0x42, 0xd0, 0xd2].includes(code) || (code >= 0x23 && code <= 0x26)) return 1;
  if (code === 0x11 || (code >= 0x28 && code <= 0x3e)) return 2; // call_indirect, loads and stores
  if ([0x00, 0x01, 0x05, 0x0b, 0x0f, 0x1a, 0x1b, 0xd1].includes(code) || (code >= 0x45 && code <= 0xc4)) return 0;
  return undefined;
}

/** A reader of a module's bytes from one place to another. */
class Reader {
  constructor(bytes, at, end) {
    Object.assign(this, { bytes, at, end });
  }

  byte() {
    return this.bytes[this.at++];
  }

  number() {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  }

  skip(numbers) {
    for (let it = 0; it < numbers; it++) this.number();
  }

  /** A list behind its length. */
  list(read) {
    return Array.from({ length: this.number() }, read);
  }

  /** Passes an instruction behind its first byte. */
  instruction(code) {
    const numbers = numbersOf(code);
    if (numbers !== undefined) this.skip(numbers);
    else if (code === 0x0e) this.skip(this.number() + 1); // br_table
    else if (code === 0x1c) this.skip(this.number()); // select of a type
    else if (code === 0x43) this.at += 4;
    else if (code === 0x44) this.at += 8;
    else if (code === 0xfc) this.bulk(this.number());
    else throw new Error(`the instruction ${code.toString(16)} is not known here: add it to module.mjs`);
  }

  bulk(code) {
    if (code > 17) throw new Error(`the instruction fc ${code} is not known here: add it to module.mjs`);
    if (code >= 8) this.skip([8, 10, 12, 14].includes(code) ? 2 : 1);
  }
}

function sectionsOf(bytes) {
  const reader = new Reader(bytes, 8, bytes.length);
  const sections = [];
  while (reader.at < reader.end) {
    const start = reader.at;
    const id = reader.byte();
    const length = reader.number();
    sections.push({ id, start, from: reader.at, to: reader.at + length });
    reader.at += length;
  }
  return sections;
}

/** A function: what declares its variables, those of one type in a group, and its code as bytes that each, but the last, end where
 * the number of a variable is. */
function functionOf(bytes, from, to, params) {
  const reader = new Reader(bytes, from, to);
  let count = params;
  const groups = reader.list(() => {
    const group = { from: count, to: (count += reader.number()) };
    reader.number(); // its type
    return group;
  });
  const head = bytes.subarray(from, reader.at);
  const parts = [];
  let start = reader.at;
  while (reader.at < to) {
    const code = reader.byte();
    if (code < LOCAL_GET || code > LOCAL_TEE) {
      reader.instruction(code);
      continue;
    }
    const part = bytes.subarray(start, reader.at);
    parts.push({ bytes: part, local: reader.number() });
    start = reader.at;
  }
  if (reader.at !== to) throw new Error("a function that ends within an instruction");
  parts.push({ bytes: bytes.subarray(start, to) });
  return { head, params, count, groups, parts };
}

/** The functions of a module in its order, and where the section is that has them. */
export function functionsOf(bytes) {
  const sections = sectionsOf(bytes);
  const find = (id) => sections.find((it) => it.id === id);
  const reader = (section) => new Reader(bytes, section.from, section.to);
  const types = reader(find(TYPES));
  const paramsOf = types.list(() => {
    types.byte();
    const params = types.number();
    types.at += params;
    types.skip(types.number());
    return params;
  });
  const declared = reader(find(FUNCTIONS));
  const params = declared.list(() => paramsOf[declared.number()]);
  const section = find(CODE);
  const code = reader(section);
  const functions = code.list((_, index) => {
    const length = code.number();
    code.at += length;
    return functionOf(bytes, code.at - length, code.at, params[index]);
  });
  return { functions, section };
}

/** A number as a module has it. */
export function numberBytes(value) {
  const bytes = [];
  for (; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}
