// Figures of the points of a sweep: throughput, and the best points in words.
import { count, number } from "../../units.js";

/** Tokens per second of a row; samples without sequences. */
export function rateOf({ figures }) {
  return figures?.tokens_per_s ?? figures?.samples_per_s ?? null;
}

/** The unit of throughput. */
export function unitOf({ rows }) {
  return rows.some((row) => row.figures?.tokens_per_s) ? "tokens" : "samples";
}

/** The fields in which points differ, the topology always. */
export function axesOf({ rows }) {
  const fields = ["batch", "sequence", "precision", "target"];
  return ["topology", ...fields.filter((field) => new Set(rows.map((row) => row.point[field] ?? null)).size > 1)];
}

/** Sentences: the fastest point, the most for each device, the cheapest. */
export function bestOf(sweep) {
  const fitting = sweep.rows.filter((row) => rateOf(row) && row.figures.memory_bytes <= row.figures.capacity_bytes);
  if (!fitting.length) return [];
  const unit = unitOf(sweep);
  const named = ({ point }) => axesOf(sweep).map((axis) => (axis === "topology" ? point.topology : `${axis} ${point[axis] ?? "none"}`)).join(", ");
  const most = (value) => fitting.reduce((best, row) => (value(row) > value(best) ? row : best));
  const fastest = most(rateOf);
  const perDevice = (row) => rateOf(row) / row.figures.devices;
  const busiest = most(perDevice);
  const lines = [
    `Fastest: ${named(fastest)}, ${count(rateOf(fastest))} ${unit}/s.`,
    `Most for each device: ${named(busiest)}, ${number(perDevice(busiest))} ${unit}/s.`,
  ];
  const priced = fitting.filter((row) => row.price_per_million !== undefined);
  if (priced.length) {
    const cheapest = priced.reduce((best, row) => (row.price_per_million < best.price_per_million ? row : best));
    const run = cheapest.run_price === undefined ? "" : `; the run ${count(cheapest.run_price)}`;
    lines.push(`Cheapest: ${named(cheapest)}, ${number(cheapest.price_per_million)} for a million ${unit}${run}.`);
  }
  return lines;
}
