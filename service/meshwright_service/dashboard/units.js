// Numbers as people read them, each with its unit; three digits, which is more than a prediction has.

const TIMES = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
const BYTES = [["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30], ["TiB", 2 ** 40]];
const SPACE = "\u00a0";

/** Nanoseconds. */
export function time(ns) {
  if (!known(ns)) return "–";
  if (ns === 0) return `0${SPACE}s`;
  if (Math.abs(ns) >= 120e9) return `${digits(ns / 60e9)}${SPACE}min`;
  return scaled(ns, TIMES);
}

/** Bytes, in powers of 1,024. */
export function bytes(value) {
  return known(value) ? scaled(value, BYTES) : "–";
}

/** Bytes a second, in powers of 1,000, as links are sold. */
export function rate(value) {
  if (!known(value)) return "–";
  return `${scaled(value, [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]])}/s`;
}

/** The rate of one device on a link of a topology; devices may share a port. */
export function linkRate(link) {
  return rate(link.bytes_per_s / (link.devices_per_port ?? 1));
}

/** Floating-point operations, in powers of 1,000. */
export function flops(value) {
  if (!known(value)) return "–";
  return scaled(value, [["FLOP", 1], ["kFLOP", 1e3], ["MFLOP", 1e6], ["GFLOP", 1e9], ["TFLOP", 1e12], ["PFLOP", 1e15]]);
}

/** A share of 1. */
export function percent(share) {
  return known(share) ? `${digits(100 * share)}${SPACE}%` : "–";
}

/** The same with its sign: +3.1 %; from ten times on as a factor: ×12.0. */
export function change(share) {
  if (!known(share)) return "–";
  if (share >= 9) return `×${digits(1 + share)}`;
  const shown = percent(Math.abs(share));
  return share > 0 ? `+${shown}` : share < 0 ? `−${shown}` : shown;
}

/** A whole number with its thousands apart. */
export function count(value) {
  return known(value) ? Math.round(value).toLocaleString("en") : "–";
}

/** A number without a unit, with three digits or more. */
export function number(value) {
  if (!known(value)) return "–";
  return Math.abs(value) < 1 ? String(Number(value.toPrecision(3))) : digits(value);
}

/** How long ago an ISO date was. */
export function ago(iso) {
  if (!iso) return "–";
  const s = Math.max(0, (Date.now() - Date.parse(iso)) / 1e3);
  for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["min", 60]]) {
    if (s >= size) return `${Math.floor(s / size)}${SPACE}${unit} ago`;
  }
  return s < 2 ? "now" : `${Math.floor(s)}${SPACE}s ago`;
}

/** An ISO date in the reader's own time. */
export function moment(iso) {
  return iso ? new Date(iso).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }) : "–";
}

/** The head of an id: enough to tell two apart. */
export function short(id) {
  const [kind, digest] = id.split("_");
  return digest === undefined ? id.slice(0, 16) : `${kind}_${digest.slice(0, 8)}`;
}

function scaled(value, units) {
  const size = Math.abs(value);
  const [name, one] = units.findLast(([, own]) => size >= own) ?? units[0];
  return `${digits(value / one)}${SPACE}${name}`;
}

function digits(value) {
  const size = Math.abs(value);
  const text = size >= 100 ? Math.round(size).toLocaleString("en") : size.toFixed(size >= 10 ? 1 : size === 0 ? 0 : 2);
  return value < 0 ? `−${text}` : text;
}

/** Whether there is a number. */
export function known(value) {
  return typeof value === "number" && Number.isFinite(value);
}
