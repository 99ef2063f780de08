// Labels of ticks. Where neighbors would read the same, they are offsets from the first.
import { time } from "../units.js";

const SPACE = "\u00a0";

/** The texts of times in nanoseconds, ascending: "2.897 s + 0.5 ms" where "2.90 s" would stand at each. */
export function timeLabels(values) {
  const plain = values.map(time);
  if (new Set(plain).size === plain.length || !(values[0] > 0)) return plain;
  const base = rounded(values[0], values.at(-1) - values[0]);
  const text = exact(base);
  return values.map((value) => (value > base ? `${text}${SPACE}+${SPACE}${offset(value - base)}` : text));
}

/** The last multiple, before a value, of the power of ten that is the span or more. */
function rounded(value, span) {
  let one = 10 ** Math.ceil(Math.log10(value));
  while (one / 10 >= span * (1 - 1e-9)) one /= 10;
  return Math.floor(value / one + 1e-9) * one;
}

/** A time with all its digits. */
function exact(ns) {
  const [unit, one] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3]].find(([, own]) => ns >= own) ?? ["ns", 1];
  return `${(ns / one).toLocaleString("en", { maximumFractionDigits: 9 })}${SPACE}${unit}`;
}

/** A small time, without zeros at its end. */
function offset(ns) {
  return time(ns).replace(/(\.\d*?)0+(?=\D)/, "$1").replace(/\.(?=\D)/, "");
}
