// Fits as curves through their samples, and below them what is left: predicted over measured by size.
import { loglog } from "../../chart/loglog.js";
import { fill, h } from "../../element.js";
import { COLLECTIVES, named, plain } from "../../kinds.js";
import { bytes, count, flops, rate, time } from "../../units.js";

const SIZES = {
  matmul: { size: flops, name: "operations", base: 10, speed: (value) => `${flops(value)}/s` },
  attention: { size: flops, name: "operations", base: 10, speed: (value) => `${flops(value)}/s` },
  memory: { size: bytes, name: "bytes moved", base: 2, speed: rate },
  launch: { size: count, name: "launches in a row", base: 10, speed: (value) => `${count(value)}/s` },
};
const SHAPED = new Set(["matmul", "attention"]);
const MESSAGE = { size: bytes, name: "payload of a device", base: 2, speed: rate };

/** The samples of a kind; kind: the one that is looked at first; chosen: called with another. */
export function fits({ residuals, sampled }, kind, chosen) {
  const kinds = residuals.map((own) => own.kind);
  const drawing = h("div", {});
  const choice = h(
    "select", { id: "kind", onchange: () => (draw(choice.value), chosen(choice.value)) },
    kinds.map((own) => h("option", { value: own, selected: own === kind }, named(own))),
  );
  draw(kinds.includes(kind) ? kind : kinds[0]);
  return h("section", {}, h("div", { class: "row pick" }, h("h2", {}, "Fits"), h("label", { for: "kind" }, "of"), choice), drawing);

  function draw(own) {
    fill(drawing, h("div", { class: "columns" }, curves(own, sampled.filter((one) => one.kind === own))));
  }
}

function curves(kind, samples) {
  const by = SIZES[kind] ?? MESSAGE;
  const among = kind in COLLECTIVES;
  const groups = new Map();
  for (const own of samples) groups.set(own.series, [...(groups.get(own.series) ?? []), own].sort((a, b) => a.size - b.size));
  const x = { name: by.name, text: by.size, base: by.base };
  const said = (own) => `${own.name}: measured ${time(own.measured_ns)} ± ${time(own.spread_ns)}, predicted ${time(own.predicted_ns)}`;
  const shaped = SHAPED.has(kind); // the same size in several shapes: no line goes through them
  const series = (line, dot) => [...groups].map(([name, own], at) => ({
    name: among ? `groups of ${name}` : name,
    colour: plain(at),
    [shaped ? "ticks" : "line"]: line ? own.map(line) : [],
    dots: own.map((one) => [one.size, dot(one), said(one)]),
  }));
  return [
    h("div", {},
      h("h3", {}, `Measured (marks) and predicted (${shaped ? "dashes" : "lines"})`),
      loglog({ label: `Fit of ${named(kind)}`, x, y: { name: among ? "payload a second" : `${by.name} a second`, text: by.speed }, series: series((one) => [one.size, one.predicted_per_s], (one) => one.measured_per_s) })),
    h("div", {},
      h("h3", {}, "Predicted over measured"),
      loglog({ label: `Residuals of ${named(kind)}`, x, y: { name: "predicted over measured time", text: (value) => String(Number(value.toPrecision(2))), from: 0.5, to: 2 }, levels: [{ y: 1, name: "", colour: "--ink-2" }], series: series(null, (one) => one.ratio) })),
  ];
}
