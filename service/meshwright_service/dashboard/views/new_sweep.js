// A new sweep of a stored graph: the axes, prices and the length of the run.
import { get, send } from "../api.js";
import { fill, h, path } from "../element.js";
import { failed, loading } from "../states.js";
import { TARGETS } from "../targets.js";
import { count } from "../units.js";

const FACTORS = { "": 1, k: 1e3, M: 1e6, B: 1e9, T: 1e12 };

export async function show({ root, params, query, signal, go, keep, title }) {
  fill(root, loading("the graph"));
  const graph = await get(path`/v1/graphs/${params.graph}/summary`, { signal });
  title(`Sweep ${graph.name}`);
  const { batch, seq } = graph.summary.symbols;
  const fields = [
    field("axes", "topologies", "Topologies", "presets, apart by commas; braces stand for several", "h100-{1,2,4}x8, b200-{1,2}x8", listed),
    field("axes", "batches", "Global batches", "apart by commas", batch, sizes),
    ...(seq ? [field("axes", "sequences", "Sequence lengths", "apart by commas", seq, sizes)] : []),
    field("axes", "targets", "Targets", `apart by commas: none, ${TARGETS.join(", ")}`, "none", targets),
    field("run", "prices", "Prices", "of a device for an hour, such as h100=2.5, b200=5", "none", prices),
    field("run", "tokens", "Tokens of the run", "such as 1T; samples without sequences", "none", (text) => whole(text.trim())),
    field("run", "seconds", "Search", "seconds for each point, at most", 30, Number),
  ];
  const wrong = h("div");
  const form = h("form", { class: "what-if", onsubmit: submitted, oninput: kept },
    h("div", { class: "what-if-groups" },
      together("Axes", fields.filter((own) => own.group === "axes")),
      together("Run and search", fields.filter((own) => own.group === "run"))),
    h("div", { class: "card", role: "group", "aria-label": "Sweep" }, h("h2", {}, "Sweep"),
      h("p", { class: "muted" }, "All combinations are planned, each as a search of its own. Points that were planned before are not planned again."),
      h("div", { class: "row" }, h("button", { class: "primary" }, "Plan all points")), wrong));
  fill(root, h("h1", {}, "Sweep ", h("span", { class: "name" }, graph.name)), h("p", { class: "muted" }, `${count(graph.summary.ops)} ops, ${count(graph.summary.parameter_elements)} parameters. Topologies are enough; the rest has defaults.`), form);

  function field(group, name, label, says, placeholder, read) {
    const control = h("input", { type: "text", id: `sweep-${name}`, placeholder, value: query.get(name) ?? "", spellcheck: "false", "aria-describedby": `sweep-${name}-says` });
    const fault = h("span", { class: "bad", role: "alert" });
    const element = h("div", { class: "what-if-field" }, h("label", { for: control.id }, label), h("span", { class: "row" }, control), h("span", { class: "muted hint", id: `sweep-${name}-says` }, says), fault);
    return { name, group, control, read, element, fault };
  }

  function kept() {
    keep(Object.fromEntries(fields.map((own) => [own.name, own.control.value.trim()])));
  }

  async function submitted(event) {
    event.preventDefault();
    fill(wrong);
    const body = { graph: params.graph, name: graph.name };
    for (const own of fields) {
      fill(own.fault);
      const text = own.control.value.trim();
      if (!text) continue;
      try {
        const value = own.read(text);
        if (own.name === "seconds") body.budget = { seconds: value };
        else body[own.name] = value;
      } catch (problem) {
        fill(own.fault, problem.message);
        return own.control.focus();
      }
    }
    if (!body.topologies) {
      fill(fields[0].fault, "Name a topology.");
      return fields[0].control.focus();
    }
    try {
      const { body: sweep } = await send("POST", "/v1/sweeps", body, { signal });
      go(path`/sweeps/${sweep.id}`);
    } catch (problem) {
      if (signal.aborted) return;
      fill(wrong, failed(problem));
      const place = problem.errors?.[0]?.pointer?.split("/")[1];
      fields.find((own) => own.name === place)?.control.focus();
    }
  }
}

/** The parts of a list between commas; those within braces do not separate. */
function listed(text) {
  return text.split(/,(?![^{]*\})/).map((part) => part.trim()).filter(Boolean);
}

function sizes(text) {
  return listed(text).map(whole);
}

function together(title, fields) {
  return h("div", { class: "card", role: "group", "aria-label": title }, h("h2", {}, title), fields.map((own) => own.element));
}

function whole(text) {
  const [, digits, factor] = /^(\d+(?:\.\d+)?(?:e\d{1,2})?)([kMBT]?)$/.exec(text) ?? [];
  const value = Math.round(Number(digits) * FACTORS[factor]);
  if (!(value >= 1)) throw new Error(`${text} is not a whole number of 1 or more.`);
  return value;
}

function targets(text) {
  return listed(text).map((name) => {
    if (name !== "none" && !TARGETS.includes(name)) throw new Error(`${name} is not a target.`);
    return name === "none" ? null : name;
  });
}

function prices(text) {
  return Object.fromEntries(listed(text).map((part) => {
    const [name, price] = part.split("=").map((own) => own.trim());
    if (!name || !(Number(price) >= 0) || !price) throw new Error(`${part} is not like h100=2.5.`);
    return [name, Number(price)];
  }));
}
