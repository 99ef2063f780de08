// The devices of a new plan: a kind, nodes and devices of a node, which make the name of a preset; or a topology that is stored.
import { get } from "../../api.js";
import { fill, h, path } from "../../element.js";
import { bytes, count, linkRate, time } from "../../units.js";
import { isPod, readPreset, writePreset } from "./preset_name.js";

const PAUSE_MS = 250; // chosen: between two letters

/** {element, follow()}: follow() once the topology's field says another name. */
export function deviceChoice({ presets, request, topologies, signal }) {
  const field = request.field("topology");
  const kind = h("select", { id: "device-kind", onchange: () => kindChosen() },
    h("option", { value: "" }, "by name"), presets.map(({ name, device }) => h("option", { value: name }, `${name} · ${device}`)));
  const nodes = h("input", { id: "device-nodes", type: "number", min: 1, step: 1, oninput: said });
  const inside = h("input", { id: "device-inside", type: "text", spellcheck: "false", autocomplete: "off", inputmode: "numeric", "aria-describedby": "device-inside-says", oninput: said });
  const nodesLabel = h("label", { for: nodes.id }, "Nodes");
  const insideLabel = h("label", { for: inside.id }, "Devices a node");
  const insideSays = h("span", { class: "muted hint", id: "device-inside-says" });
  const sizes = h("div", {}, row(nodesLabel, nodes), row(insideLabel, inside, insideSays));
  const shown = h("div", { role: "status" });
  let name = null; // of the topology that is shown
  let leaving = new AbortController();
  signal.addEventListener("abort", () => leaving.abort(), { once: true });
  const element = h("div", {}, row(h("label", { for: kind.id }, "Device"), kind), sizes, field.element, shown);
  return { element, follow };

  function kindChosen() {
    const preset = presets.find((own) => own.name === kind.value);
    if (!preset) return request.say("topology", "");
    const wholes = isPod(preset) ? preset.largest.map((size) => Math.min(size, 4)).join("x") : String(preset.largest[0]);
    request.say("topology", writePreset({ preset, nodes: nodes.value || "1", inside: wholes }));
  }

  function said() {
    const preset = presets.find((own) => own.name === kind.value);
    if (preset) request.say("topology", writePreset({ preset, nodes: nodes.value.trim(), inside: inside.value.trim() }));
  }

  function follow() {
    const text = field.said();
    if (text === name) return;
    name = text;
    const found = readPreset(text, presets);
    const isTyped = [nodes, inside].includes(document.activeElement);
    if (found || !isTyped) drawn(found);
    preview(text);
  }

  function drawn(found) {
    kind.value = found?.preset.name ?? "";
    sizes.hidden = !found;
    if (!found) return;
    const pod = isPod(found.preset);
    fill(nodesLabel, pod ? "Slices" : "Nodes");
    fill(insideLabel, pod ? "Torus of a slice" : "Devices a node");
    fill(insideSays, pod ? `sizes such as ${found.preset.largest.map(() => 4).join("x")}; a pod has ${found.preset.largest.join(" × ")}` : `a full ${found.preset.server} has ${count(found.preset.largest[0])}`);
    if (nodes.value !== found.nodes) nodes.value = found.nodes;
    if (inside.value !== found.inside) inside.value = found.inside;
  }

  async function preview(text) {
    leaving.abort();
    leaving = new AbortController();
    const own = leaving.signal;
    if (!text) return fill(shown, h("p", { class: "muted" }, "Choose a device, or a stored topology by its name."));
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    if (own.aborted) return;
    const stored = topologies.find((other) => other.name === text || other.id === text)?.id;
    try {
      const topology = await get(stored ? path`/v1/topologies/${stored}` : path`/v1/presets/${text}`, { signal: own });
      field.tell(null);
      fill(shown, facts(topology));
    } catch (problem) {
      if (own.aborted) return;
      fill(shown);
      field.tell(problem.detail || problem.message);
    }
  }
}

function row(label, control, says) {
  return h("div", { class: "what-if-field" }, label, h("span", { class: "row" }, control), says ?? null);
}

/** What a topology is: devices, memory, and the links from the slowest to the fastest. */
function facts(topology) {
  const groups = [topology, ...(topology.beside ?? [])];
  const sizes = groups.map(({ levels }) => levels.reduce((product, { size }) => product * size, 1));
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const memory = groups.reduce((sum, { device }, at) => sum + sizes[at] * device.memory_bytes, 0);
  return [
    h("p", {}, h("strong", {}, `${count(total)} device${total > 1 ? "s" : ""}, ${bytes(memory)}`), " in all: ", groups.map(({ device }, at) => `${at ? "; " : ""}${count(sizes[at])} × ${device.name} with ${bytes(device.memory_bytes)}`)),
    h("dl", { class: "facts", "aria-label": "Links" }, groups.flatMap(({ levels }) => levels.map(({ name, size, link }) => [
      h("dt", {}, `between ${count(size)} × ${name}`),
      h("dd", {}, `${link.kind}, ${linkRate(link)} per device each way, ${time(link.latency_ns)}`),
    ])), topology.uplink && groups.length > 1 ? [h("dt", {}, "between groups"), h("dd", {}, `${topology.uplink.kind}, ${linkRate(topology.uplink)}`)] : null),
  ];
}
