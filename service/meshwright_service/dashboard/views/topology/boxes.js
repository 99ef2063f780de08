// Levels as boxes within boxes: the first unit of each open, the others closed beside it.
import { h } from "../../element.js";
import { bytes, count, percent, rate } from "../../units.js";

const CLOSED = 7; // chosen: units drawn beside the open one; the rest is a number

export function boxes(group, kept) {
  return h("section", { class: "nested", "aria-label": "Levels" }, level(group, kept.levels, 0));
}

function level(group, levels, at) {
  const own = levels[at];
  if (!own) return device(group);
  const more = own.size - 1 - CLOSED;
  const others = Array.from({ length: Math.min(own.size - 1, CLOSED) }, (_, n) => h("div", { class: "unit name" }, `${own.level} ${n + 1}`));
  return h(
    "div", { class: "level" },
    h("div", { class: "level-head" }, h("strong", { class: "name" }, `${count(own.size)} × ${own.level}`), h("span", { class: "name" }, own.link), speed(own)),
    h(
      "div", { class: at === levels.length - 1 ? "units last" : "units" },
      h("div", { class: "unit open" }, level(group, levels, at + 1)),
      own.size > 1 ? h("div", { class: "closed" }, others, more > 0 ? h("div", { class: "muted" }, `and ${count(more)} more`) : null) : null,
    ),
  );
}

function device(group) {
  const { name, memory_bytes: memory, memory_bytes_per_s: traffic } = group.device;
  return h("div", { class: "device" }, h("strong", { class: "name" }, name), h("span", {}, `${bytes(memory)}, ${rate(traffic)}`));
}

function speed(own) {
  if (!own.kept_bytes_per_s) return h("span", { class: "muted" }, "nothing to cross");
  const share = own.kept_bytes_per_s / own.promised_bytes_per_s;
  return [
    h("span", {}, h("strong", {}, rate(own.kept_bytes_per_s)), ` of ${rate(own.promised_bytes_per_s)} a device`),
    h("meter", { min: 0, max: 1, value: Math.min(1, share), "aria-label": `${own.level}: share of the data sheet` }),
    h("span", { class: "number" }, percent(share)),
  ];
}
