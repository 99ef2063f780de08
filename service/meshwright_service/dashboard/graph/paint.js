// Boxes and edges of a drawing as SVG; of a large one only what is in sight, from afar without letters.
import { s } from "../element.js";
import { COLLECTIVES } from "../kinds.js";
import { bytes, time } from "../units.js";

const FAR = 0.35; // chosen: below this scale letters cannot be read
const LONG = 400; // pixels; chosen: edges past so much are drawn faintly, unless something moves on them
const PLAIN = /^[ -~]{0,48}$/; // what the drawing's widths are right for
const STRIP = 7; // of the strip that shows how a tensor is cut

/** axes: {name: colour}. Boxes outside in, edges above open modules and below what is in them. */
export function painted(layout, axes, sight, scale) {
  const near = scale >= FAR;
  const inSight = (box) => box.x < sight.right && box.x + box.width > sight.left && box.y < sight.bottom && box.y + box.height > sight.top;
  const boxes = layout.boxes.filter(inSight);
  const edges = [...layout.edges.entries()].filter(([, edge]) => crosses(edge.points, sight));
  return [
    boxes.filter((box) => box.is_open).map(frame),
    edges.map(([at, edge]) => line(edge, at, near)),
    near ? boxes.filter((box) => box.is_open).map(head) : null,
    boxes.filter((box) => !box.is_open).map((box) => closed(box, axes, near)),
    near ? edges.filter(([, edge]) => edge.moved?.length).map(([at, edge]) => label(edge, at)) : null,
  ];
}

function crosses([[ax, ay], [bx, by]], sight) {
  return Math.min(ax, bx) - 80 < sight.right && Math.max(ax, bx) + 80 > sight.left && Math.min(ay, by) - 40 < sight.bottom && Math.max(ay, by) + 40 > sight.top;
}

function frame(box) {
  return s("g", { class: "box open", "data-box": box.id }, s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 6 }));
}

// over the edges that cross it, so that a click folds the module
function head(box) {
  return s("g", { class: "box head", "data-head": box.id },
    s("rect", { x: box.x + 1, y: box.y + 1, width: Math.min(box.width - 2, 24 + 7 * box.label.length), height: 22, rx: 6 }),
    s("text", { x: box.x + 10, y: box.y + 17 }, `− ${box.label}`));
}

function closed(box, axes, near) {
  return s("g", { class: box.can_open ? "box module" : "box op", "data-box": box.id },
    s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: box.can_open ? 6 : 2 }),
    near ? within(box, box.can_open ? `+ ${box.label}` : box.label) : null,
    strip(box, axes));
}

/** A label; one that is wider than boxes are made for ends at the edge. */
function within(box, label) {
  if (PLAIN.test(label)) return s("text", { x: box.x + 10, y: box.y + 16 }, label);
  return s("svg", { x: box.x, y: box.y, width: box.width - 4, height: box.height }, s("text", { x: 10, y: 16 }, label));
}

// of an op a cell for every dim of what it makes, of a module every axis that cuts anything in it
function strip(box, axes) {
  const y = box.y + box.height - STRIP - 5;
  const left = box.x + 10;
  const wide = Math.max(12, box.width - 20);
  const dims = box.can_open ? [box.axes ?? []] : box.made?.[0]?.axes ?? [];
  if (!dims.length) return null;
  const each = wide / dims.length;
  return dims.map((own, at) => {
    const x = left + at * each;
    const room = Math.max(1, each - (dims.length > 1 ? 2 : 0));
    if (!own.length) return s("rect", { class: "whole", x, y, width: room, height: STRIP });
    const part = room / own.length;
    return own.map((axis, number) => s("rect", { x: x + number * part, y, width: part, height: STRIP, style: { fill: `var(${axes[axis]})` } }));
  });
}

function line({ points: [[ax, ay], [bx, by]], moved, up }, at, near) {
  const bend = up ? -Math.max(30, Math.abs(ay - by) / 4) : Math.min(60, Math.abs(by - ay) / 2);
  const d = `M${ax} ${ay}C${ax} ${ay + bend} ${bx} ${by - bend} ${bx} ${by}`;
  const colour = moved?.length ? COLLECTIVES[moved[0].collective]?.colour ?? "--ink-2" : null;
  const far = Math.hypot(bx - ax, by - ay) > LONG ? " long" : "";
  return s("g", { class: colour ? "edge moved" : `edge${far}`, "data-edge": at },
    near ? s("path", { class: "reach", d }) : null,
    s("path", { d, style: colour ? { stroke: `var(${colour})` } : {}, "marker-end": "url(#arrow)" }));
}

function label({ points: [[ax, ay], [bx, by]], moved, more_moved = 0 }, at) {
  const x = (ax + bx) / 2;
  const y = (ay + by) / 2;
  const [first] = moved;
  const others = moved.length - 1 + more_moved;
  const more = others ? ` +${others}` : "";
  const payload = first.payload_bytes ? ` ${bytes(first.payload_bytes)}` : "";
  const text = `${first.collective}${payload}, ${time(first.ns)}${more}`;
  return s("g", { class: "move", "data-edge": at },
    s("path", { d: `M${x} ${y - 6}l6 6l-6 6l-6 -6z`, style: { fill: `var(${COLLECTIVES[first.collective]?.colour ?? "--ink-2"})` } }),
    s("text", { x: x + 10, y: y + 4 }, text));
}
