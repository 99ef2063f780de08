// The points of a sweep as a table.
import { h, link, path } from "../../element.js";
import { table } from "../../table.js";
import { count, number, percent, time } from "../../units.js";
import { overfull } from "../../verdict.js";
import { axesOf, rateOf, unitOf } from "./figures.js";
import { sweepState } from "./state.js";

/** A table with `update(rows)`, `columns` and `records()` for a file. */
export function pointsTable(sweep, { signal, go }) {
  let rows = [];
  const unit = unitOf(sweep);
  const columns = columnsOf(sweep, unit);
  const made = table({
    label: "Points", rows, signal, go, key: (row) => row.at, address: addressOf,
    columns: columns.map(({ title, number: isNumber, text, value, says }) => ({ title, number: isNumber, says, value: text, sort: value })),
  });
  const draw = made.update;
  made.update = (next) => draw((rows = next));
  made.columns = columns.map(({ field }) => field);
  made.records = () => rows.map((row) => columns.map(({ value }) => value(row)));
  return made;
}

function addressOf(row) {
  return row.figures ? path`/plans/${row.figures.plan}` : row.job ? path`/jobs/${row.job}` : "/sweeps";
}

function columnsOf(sweep, unit) {
  const axes = axesOf(sweep);
  const isPriced = Object.keys(sweep.sweep.prices ?? {}).length > 0;
  const hasRun = sweep.sweep.tokens !== undefined;
  const figure = (field) => (row) => row.figures?.[field] ?? null;
  const column = (field, title, show, more = {}) => {
    const value = more.value ?? figure(field);
    return { field, title, value, number: true, text: (row) => (value(row) === null ? "–" : show(value(row), row)), ...more };
  };
  return [
    column("topology", "Topology", null, { number: false, value: (row) => row.point.topology, text: topologyOf }),
    ...axes.slice(1).map((axis) => column(axis, axis[0].toUpperCase() + axis.slice(1), (value) => (typeof value === "number" ? count(value) : value), { number: ["batch", "sequence"].includes(axis), value: (row) => row.point[axis] ?? null })),
    column("state", "State", null, { number: false, value: (row) => row.state, text: stateOf }),
    column("devices", "Devices", count),
    column("step_ns", "Step", time),
    column(`${unit}_per_s`, `${unit[0].toUpperCase()}${unit.slice(1)}/s`, count, { value: rateOf }),
    column("per_device", "A device", number, { value: (row) => (rateOf(row) ? rateOf(row) / row.figures.devices : null), says: "throughput of one device" }),
    column("utilization", "MFU", percent, { says: "model FLOPs utilization" }),
    column("headroom", "Headroom", (value) => (value < 0 ? overfull() : percent(value)), { value: (row) => (row.figures ? 1 - row.figures.memory_bytes / row.figures.capacity_bytes : null), says: "free share of the device memory, beyond the reserve" }),
    ...(isPriced ? [column("price_per_million", `A million ${unit}`, number, { value: (row) => row.price_per_million ?? null, says: "price" })] : []),
    ...(hasRun ? [column("run_days", "Run, days", number, { value: (row) => row.run_days ?? null })] : []),
    ...(hasRun && isPriced ? [column("run_price", "Run, price", count, { value: (row) => row.run_price ?? null })] : []),
    column("degrees", "Degrees", (value, row) => h("span", { class: "name" }, (row.figures.differing ? "≈ " : "") + value), { number: false, says: "of most of the arithmetic; ≈: some ops differ" }),
  ];
}

function topologyOf(row) {
  const name = h("span", { class: "clip" }, row.point.topology);
  const address = addressOf(row);
  return [address === "/sweeps" ? name : link(address, name), row.on_front ? [" ", h("span", { class: "tag good", title: "No other point has as high a throughput on as few devices" }, "front")] : null];
}

function stateOf(row) {
  return [sweepState(row), row.reason ? [" ", h("span", { class: "name" }, row.reason)] : null];
}
