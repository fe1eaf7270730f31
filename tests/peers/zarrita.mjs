// Read arrays of hierarchies with zarrita.js. Each line of the input is JSON: [folder, array, ...],
// or the address of a server instead of the folder. The answer is a line of JSON, by name: {type,
// shape, data} in C order, or {error}. Without names the folder itself is the array.
import { createInterface } from "node:readline";
import * as zarr from "zarrita";
import FileSystemStore from "@zarrita/storage/fs";

const TYPES = {
  bool: "bool",
  int8: "i1", int16: "i2", int32: "i4", int64: "i8",
  uint8: "u1", uint16: "u2", uint32: "u4", uint64: "u8",
  float16: "f2", float32: "f4", float64: "f8",
};

// JSON has neither infinities nor -0, and readers may round large integers; text keeps all.
function plain(value) {
  const exact = Number.isSafeInteger(value) && !Object.is(value, -0);
  if (exact || typeof value === "boolean") return value;
  return Object.is(value, -0) ? "-0.0" : String(value);
}

// The values of a result, whose axes may lie in any order, in C order.
function* items({ data, shape, stride }, axis = 0, offset = 0) {
  if (axis === shape.length) {
    yield plain("get" in data ? data.get(offset) : data[offset]);
    return;
  }
  for (let i = 0; i < shape[axis]; i++) {
    yield* items({ data, shape, stride }, axis + 1, offset + i * stride[axis]);
  }
}

async function read(root, name) {
  const array = await zarr.open(name ? root.resolve(name) : root, { kind: "array" });
  const found = await zarr.get(array);
  const type = TYPES[array.dtype] ?? "text";
  if (array.shape.length === 0) return { type, shape: [], data: [plain(found)] };
  return { type, shape: array.shape, data: [...items(found)] };
}

for await (const line of createInterface({ input: process.stdin })) {
  const [folder, ...names] = JSON.parse(line);
  const remote = folder.startsWith("http://");
  const root = zarr.root(remote ? new zarr.FetchStore(folder) : new FileSystemStore(folder));
  const answers = {};
  for (const name of names.length ? names : [""]) {
    try {
      answers[name] = await read(root, name);
    } catch (error) {
      answers[name] = { error: `${error.name}: ${error.message}` };
    }
  }
  process.stdout.write(JSON.stringify(answers) + "\n");
}
