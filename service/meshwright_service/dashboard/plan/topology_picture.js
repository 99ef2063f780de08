// The topology of a plan as a drawing: units within units, the links between them, and the mesh's axes on the links.
import { h, s } from "../element.js";
import { bytes, count, linkRate } from "../units.js";

export const ROLES = { dp: "data parallel", tp: "tensor parallel", cp: "context parallel", ep: "expert parallel" };

const WIDTH = 860;
const EDGE = 10; // of a box
const HEAD = 20;
const ROW = 24; // of an axis and its link
const STUB = 10;
const SIDE = 26; // of a device
const CLOSED = 112; // width of the units beside the open one
const DEVICES = 8; // chosen: that are drawn one by one
const UNITS = 3; // chosen: closed units that are drawn one by one
const LETTER = 6.6;

/** overview: of the plan; topology: its document. */
export function topologyPicture({ stages, uniform }, topology) {
  const groups = groupsOf(topology, stages);
  const said = [];
  let y = 0;
  const drawn = groups.map((group, at) => {
    const between = at ? uplink(group, groups, stages, y, said) : null;
    if (at) y += HEAD + ROW;
    const title = groups.length > 1 ? s("text", { x: EDGE, y: y + 14 }, clip(`${group.device.name} × ${count(group.size)}${group.stages.length ? "" : ", not used"}`, WIDTH)) : null;
    if (title) y += HEAD;
    const box = unit(group, 0, { x: 1, y, width: WIDTH - 2, first: group.first }, said);
    y += box.height + EDGE;
    return s("g", {}, between, title, box.nodes);
  });
  const others = groups.filter((group) => group.meshes > 1);
  return h(
    "figure", { class: "chart" },
    s("svg", { viewBox: `0 0 ${WIDTH} ${y}`, role: "img", "aria-label": `Topology with the axes of the mesh. ${said.join("; ")}`, class: "wide topology" }, drawn),
    others.length ? h("figcaption", { class: "muted" }, "Stages have different meshes; the axes are those of the first stage.") : null,
    uniform.pipeline_ranks > 1 ? null : h("figcaption", { class: "muted" }, "The first unit of each level is open; all units of a level are alike."),
  );
}

/** The groups of equal devices, each with its first device, the stages on it and the axes of their mesh. */
function groupsOf(topology, stages) {
  let first = 0;
  return [topology, ...(topology.beside ?? [])].map((own) => {
    const size = own.levels.reduce((all, level) => all * level.size, 1);
    const here = stages.filter((stage) => first <= stage.first_rank && stage.first_rank < first + size);
    const group = { levels: own.levels, device: own.device, uplink: own.uplink, first, size, stages: here, meshes: new Set(here.map((stage) => JSON.stringify(stage.mesh.axes))).size };
    first += size;
    return group;
  });
}

/** The link between groups. */
function uplink(group, groups, stages, y, said) {
  const last = groups[groups.indexOf(group) - 1];
  const crosses = ranksOf(stages).some((from, at, all) => at && groupAt(groups, all[at - 1]) !== groupAt(groups, from));
  const text = `between groups: ${linkText(group.uplink ?? last.uplink)}`;
  said.push(text);
  return [
    s("text", { x: EDGE, y: y + 14 }, clip(text, WIDTH)),
    row(crosses ? pipelineRow(stages) : UNUSED, { x: EDGE, y: y + HEAD, width: WIDTH - 2 * EDGE }),
  ];
}

function groupAt(groups, device) {
  return groups.findIndex((group) => group.first <= device && device < group.first + group.size);
}

/** {nodes, height}: the units of a level with their links, in the box of a unit of the level above. */
function unit(group, at, { x, y, width, first }, said) {
  const level = group.levels[at];
  const rows = rowsOf(group, at);
  const inner = width - 2 * EDGE;
  const title = `${count(level.size)} × ${level.name}: ${linkText(level.link)}`;
  if (first === group.first) said.push(`${title}, ${rows.map((own) => own.text).join(" and ")}`);
  const lines = y + HEAD;
  const units = lines + rows.length * ROW + STUB;
  const content = at === group.levels.length - 1
    ? devices(group, level, { x: x + EDGE, y: units, width: inner, first })
    : nested(group, at, { x: x + EDGE, y: units, width: inner, first }, said);
  const height = units - y + content.height + EDGE;
  const from = lines + rows.length * ROW - 3;
  return {
    height,
    nodes: [
      s("rect", { class: "frame", x, y, width, height, rx: 4 }),
      s("text", { x: x + EDGE, y: y + 14 }, clip(title, inner)),
      content.stubs.map((stub) => s("path", { class: "stub", d: `M${stub} ${from}V${units}` })),
      rows.map((own, number) => row(own, { x: x + EDGE, y: lines + number * ROW, width: inner, ring: isRing(level.link) && level.size > 2 })),
      content.nodes,
    ],
  };
}

function nested(group, at, { x, y, width, first }, said) {
  const level = group.levels[at];
  const closed = level.size > 1 ? CLOSED : 0;
  const open = unit(group, at + 1, { x, y, width: width - closed, first }, said);
  const left = x + width - closed + EDGE;
  const shown = Math.min(level.size - 1, UNITS);
  const each = Math.min(22, (open.height - 16) / Math.max(1, shown) - 3);
  const boxes = Array.from({ length: shown }, (_, n) => [
    s("rect", { class: "device unused", x: left, y: y + n * (each + 3), width: closed - EDGE, height: each, rx: 3 }),
    s("text", { class: "muted", x: left + (closed - EDGE) / 2, y: y + n * (each + 3) + each / 2 + 4, "text-anchor": "middle" }, clip(`${level.name} ${n + 1}`, closed - EDGE)),
  ]);
  const rest = level.size - 1 > shown ? s("text", { class: "muted", x: left, y: y + shown * (each + 3) + 12 }, clip(`… ${count(level.size)} × ${level.name}`, closed)) : null;
  return { height: open.height, stubs: closed ? [x + (width - closed) / 2, left + (closed - EDGE) / 2] : [x + width / 2], nodes: [open.nodes, boxes, rest] };
}

function devices(group, level, { x, y, width, first }) {
  const shown = Math.min(level.size, DEVICES);
  const more = level.size > shown;
  const step = width / (shown + (more ? 1.5 : 0));
  const side = Math.min(step - 6, 44);
  const middle = (at) => x + (at + 0.5) * step;
  const boxes = Array.from({ length: shown }, (_, at) => [
    s("rect", { class: group.stages.length ? "device" : "device unused", x: middle(at) - side / 2, y, width: side, height: SIDE, rx: 3 }, s("title", {}, `device ${first + at}`)),
    s("text", { class: "muted", x: middle(at), y: y + 17, "text-anchor": "middle" }, first + at),
  ]);
  const text = `each ${group.device.name}, ${bytes(group.device.memory_bytes)}`;
  return {
    height: SIDE + 18, stubs: Array.from({ length: shown }, (_, at) => middle(at)),
    nodes: [boxes, more ? s("text", { class: "muted", x: x + shown * step, y: y + 17 }, `… × ${count(level.size)}`) : null, s("text", { class: "muted", x, y: y + SIDE + 15 }, clip(text, width))],
  };
}

const UNUSED = { text: "no axis of the mesh", colour: "--line-strong" };

/** The uses of the links of a level: axes of the mesh, and transfers between pipeline ranks. */
function rowsOf({ levels, stages, first }, at) {
  if (!stages.length) return [UNUSED];
  const [{ mesh, roles }] = stages;
  const axes = mesh.axes
    .map((axis, number) => ({ text: `${axis.name} = ${axis.size}${roles?.[axis.name] ? `, ${ROLES[roles[axis.name]]}` : ""}`, colour: `--axis-${number % 8}`, level: axis.level }))
    .filter((axis) => axis.level === levels[at].name);
  const crosses = ranksOf(stages).some((device, n, all) => n && outermost(levels, all[n - 1] - first, device - first) === at);
  const rows = crosses ? [pipelineRow(stages), ...axes] : axes;
  return rows.length ? rows : [UNUSED];
}

function pipelineRow(stages) {
  return { text: `${count(ranksOf(stages).length)} pipeline ranks`, colour: "--transfer" };
}

/** The first device of every pipeline rank. */
function ranksOf(stages) {
  return [...new Map(stages.map((stage) => [stage.pipeline_rank, stage.first_rank]))].sort(([a], [b]) => a - b).map(([, device]) => device);
}

/** The outermost level at which two devices are in different units. */
function outermost(levels, one, other) {
  let size = levels.reduce((all, level) => all * level.size, 1);
  return levels.findIndex((level) => {
    size /= level.size;
    return Math.floor(one / size) !== Math.floor(other / size);
  });
}

function row({ text, colour }, { x, y, width, ring }) {
  const line = y + 19;
  return [
    s("text", { x: x + 6, y: y + 13 }, clip(text, width)),
    s("path", { d: `M${x} ${line}h${width}`, stroke: `var(${colour})`, "stroke-width": 4 }),
    ring ? s("path", { d: `M${x + width} ${line}v5h${-width}v-5`, fill: "none", stroke: `var(${colour})`, "stroke-width": 1.5, "stroke-dasharray": "5 3" }, s("title", {}, "the last unit is linked to the first")) : null,
  ];
}

function isRing(link) {
  return link.kind.toLowerCase().startsWith("torus");
}

function linkText(link) {
  return `${link.kind}, ${linkRate(link)} a device`;
}

function clip(text, width) {
  const room = Math.floor(width / LETTER);
  return text.length > room ? `${text.slice(0, Math.max(1, room - 1))}…` : text;
}
