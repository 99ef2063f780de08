// Kinds of fields: how a place in the body is read into a control, and what of the control is written there.
import { Field } from "./field.js";
import { at, put } from "./place.js";

const DTYPES = ["float32", "bfloat16", "float16", "float64", "float8_e4m3", "float8_e5m2", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128"];

/** A number; empty for what the request leaves open. */
export function whole(given, asked) {
  return placed({ type: "number", min: 1, read: (value) => value, write: Number, ...given }, asked);
}

/** A share of 1, in percent. */
export function share(given, asked) {
  return placed({ type: "number", unit: "%", step: "any", read: (value) => tidy(100 * value), write: (value) => tidy(Number(value) / 100), ...given }, asked);
}

/** One of some words; options: words, or [word, says]; the first is the default and is not said. */
export function choice({ options, ...given }, asked) {
  const all = options.map((own) => (Array.isArray(own) ? own : [own, own.replaceAll("_", " ")]));
  return placed({ options: all, unsaid: all[0][0], read: String, write: (value) => value, ...given }, asked);
}

/** Yes or no; words: [of the default, of the other]; usual: the default. */
export function flag({ words, usual = false, ...given }, asked) {
  const other = usual ? "no" : "yes";
  return placed({ options: [["", words[0]], [other, words[1]]], read: (value) => (value === usual ? "" : other), write: () => !usual, ...given }, asked);
}

export function dtype({ unsaid, ...given }, asked) {
  return choice({ options: [unsaid, ...DTYPES.filter((own) => own !== unsaid)], ...given }, asked);
}

/** Names apart by blanks. */
export function names(given, asked) {
  return placed({ read: (value) => value.join(" "), write: (value) => value.split(/\s+/), ...given }, asked);
}

/** A field over the place that its pointer says. read: of what stands there; write: of what somebody said. */
export function placed({ read, write, unsaid = "", ...given }, asked) {
  return new Field({
    of: (body) => {
      const value = at(body, given.pointer);
      return value === undefined || (value === null && !given.nullable) ? unsaid : read(value);
    },
    write: (body, value) => put(body, given.pointer, value === unsaid ? undefined : write(value)),
    unsaid, ...given,
  }, asked);
}

function tidy(value) {
  return Number(value.toFixed(6)); // a share that was written as 0.1 is 10 percent, not 10.000000000000002
}
