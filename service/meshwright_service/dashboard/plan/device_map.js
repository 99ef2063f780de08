// The cluster's devices as squares in the boxes of their levels, coloured by pipeline rank.
import { h, s } from "../element.js";
import { legend } from "../chart/legend.js";
import { count } from "../units.js";

const SIDE = 20;
const GAP = 3;
const BOX = 8; // between boxes
const HEAD = 14; // of a box's title
const MOST_BOXES = 16; // chosen: what a person counts; the rest is alike
const MOST_DEVICES = 32; // of a box

export function deviceMap({ stages }, topology) {
  const sizes = topology.levels.map((level) => level.size);
  const inner = Math.min(sizes.at(-1) ?? 1, MOST_DEVICES);
  const total = sizes.reduce((all, size) => all * size, 1);
  const boxes = total / (sizes.at(-1) ?? 1);
  const shown = Math.min(boxes, MOST_BOXES);
  const across = Math.min(inner, 8);
  const down = Math.ceil(inner / across);
  const width = across * (SIDE + GAP) + GAP;
  const height = HEAD + down * (SIDE + GAP) + GAP;
  const columns = Math.min(shown, Math.max(1, Math.floor(560 / (width + BOX))));
  const rank = ranks(stages);
  const outer = topology.levels.at(-2)?.name ?? "cluster";
  const drawn = [];
  for (let box = 0; box < shown; box += 1) {
    const x = (box % columns) * (width + BOX);
    const y = Math.floor(box / columns) * (height + BOX);
    drawn.push(s("rect", { class: "frame", x, y, width, height, rx: 3 }), s("text", { class: "muted small", x: x + 4, y: y + 11 }, `${outer} ${box}`));
    for (let at = 0; at < inner; at += 1) {
      const device = box * (sizes.at(-1) ?? 1) + at;
      const own = rank(device);
      const left = x + GAP + (at % across) * (SIDE + GAP);
      const top = y + HEAD + Math.floor(at / across) * (SIDE + GAP);
      drawn.push(
        s("rect", { x: left, y: top, width: SIDE, height: SIDE, rx: 2, class: own === null ? "device unused" : "device", style: own === null ? {} : { stroke: `var(--axis-${own % 8})` } },
          s("title", {}, own === null ? `device ${device}: not used` : `device ${device}: pipeline rank ${own}`)),
        s("text", { class: "small", x: left + SIDE / 2, y: top + 14, "text-anchor": "middle" }, device),
      );
    }
  }
  const wide = columns * (width + BOX) - BOX;
  const tall = Math.ceil(shown / columns) * (height + BOX) - BOX;
  const used = new Set(stages.map((own) => own.pipeline_rank));
  return h(
    "figure", { class: "chart" },
    used.size > 1 ? legend([...used].sort((a, b) => a - b).slice(0, 8).map((own) => ({ name: `rank ${own}`, colour: `--axis-${own % 8}` }))) : null,
    s("svg", { viewBox: `0 0 ${wide + 2} ${tall + 2}`, width: wide + 2, height: tall + 2, role: "img", "aria-label": `${count(total)} devices in ${count(boxes)} × ${outer}`, class: "map" }, drawn),
    boxes > shown ? h("figcaption", { class: "muted" }, `The first ${shown} of ${count(boxes)} × ${outer}; ranks go on in the same order.`) : null,
  );
}

function ranks(stages) {
  const spans = stages.map((own) => [own.first_rank, own.first_rank + own.devices, own.pipeline_rank]);
  return (device) => spans.find(([from, to]) => from <= device && device < to)?.[2] ?? null;
}
