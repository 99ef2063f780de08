// What of the shelf is wanted: a form whose values stand in the address.
import { get } from "../../api.js";
import { h } from "../../element.js";
import { TARGETS as FRAMEWORKS } from "../../targets.js";
import { short } from "../../units.js";

const PAUSE_MS = 250; // chosen: after the last key, before it is asked

const STATES = {
  plans: [["", "all plans"], ["optimal", "objective proved optimal"], ["feasible", "objective not proved optimal"], ["verified", "verified by execution"], ["not verified", "found wrong by execution"]],
  searches: [["infeasible", "nothing fits"], ["failed", "failed"], ["cancelled", "cancelled"]],
};
const SOLVERS = [["", "any search"], ...["auto", "dynamic_programming", "recursive_programming", "sharding_propagation", "semi_auto", "exact"].map((name) => [name, name.replaceAll("_", " ")])];
const MEMORY = [["", "any"], ["fits", "fits"], ["5", "5 % free or more"], ["10", "10 % free or more"], ["20", "20 % free or more"], ["not", "does not fit"]];
const TARGETS = [["", "any"], ["none", "no target"], ...FRAMEWORKS.map((name) => [name, name])];
const NAMES = ["model", "topology", "label", "state", "solver", "target", "memory", "from", "to"];
const OF_PLANS = ["label", "solver", "target", "memory"];

/**
 * {form, asked() -> {path, noun, query}, isEmpty(), clear(), address(page)}; onChange(values) for each change.
 * The names of topologies come later than the form.
 */
export function filters({ query, signal, onChange }) {
  const fields = {
    model: text("Model", "name, * for any", { "data-search": true }),
    topology: select("Topology", [["", "any topology"]]),
    label: text("Label", "label, * for any"),
    state: field("State", h("select", {}, options(STATES.plans), h("optgroup", { label: "searches without a plan" }, options(STATES.searches)))),
    solver: select("Search", SOLVERS),
    target: select("Target", TARGETS),
    memory: select("Memory", MEMORY),
    from: day("From"),
    to: day("To"),
  };
  const value = (name) => fields[name].querySelector("input, select");
  for (const name of NAMES) {
    const given = query.get(name) ?? "";
    if (name === "topology" && given) value(name).append(...options([[given, short(given)]]));
    value(name).value = given;
    if (value(name).value !== given) value(name).value = ""; // an address that somebody typed
  }
  let timer = null;
  let said = JSON.stringify(values());
  const form = h(
    "form", { class: "row filters", role: "search", "aria-label": "Which plans", onsubmit: (event) => { event.preventDefault(); changed(); }, onchange: changed, oninput: typed },
    Object.values(fields),
  );
  fit();
  nameTopologies().catch(() => {}); // the list says what is wrong with the service
  return { form, asked, isEmpty: () => NAMES.every((name) => !value(name).value), clear, address };

  async function nameTopologies() {
    const { topologies } = await get("/v1/topologies", { signal, query: { page_size: 200 } });
    const own = value("topology");
    const given = own.value;
    const named = topologies.map((topology) => [topology.id, topology.name || short(topology.id)]);
    if (given && !topologies.some((topology) => topology.id === given)) named.push([given, short(given)]);
    own.replaceChildren(...options([["", "any topology"], ...named]));
    own.value = given;
  }

  function values() {
    return Object.fromEntries(NAMES.map((name) => [name, value(name).value.trim()]));
  }

  function typed(event) {
    if (!event.target.matches("input")) return;
    clearTimeout(timer);
    timer = setTimeout(changed, PAUSE_MS);
  }

  function changed() {
    clearTimeout(timer);
    fit();
    const now = JSON.stringify(values());
    if (signal.aborted || now === said) return;
    said = now;
    onChange(values());
  }

  function clear() {
    for (const name of NAMES) value(name).value = "";
    changed();
  }

  /** Searches without a plan have no labels, and are not told apart by how they searched. */
  function fit() {
    for (const name of OF_PLANS) value(name).disabled = isOfSearches(value("state").value);
  }

  function asked() {
    const { model, topology, label, state, solver, target, memory, from, to } = values();
    const common = { model: model && globbed(model), topology, since: midnight(from, 0), until: midnight(to, 1) };
    if (isOfSearches(state)) {
      const which = state === "infeasible" ? { outcome: state } : { state };
      return { path: "/v1/jobs", noun: "jobs", query: { ...common, ...which } };
    }
    const isProof = state === "optimal" || state === "feasible";
    const certificate = { verified: "verified", "not verified": "failed" }[state];
    return { path: "/v1/plans", noun: "plans", query: { ...common, label, solver, outcome: isProof ? state : null, certificate, target, ...room(memory) } };
  }

  function address(page) {
    const given = new URLSearchParams(location.search);
    given.delete("page");
    if (page) given.set("page", page);
    const text = given.toString();
    return text ? `/?${text}` : "/";
  }
}

/** The parameters of a choice of memory: fits, or the least free share. */
function room(memory) {
  if (memory === "fits" || memory === "not") return { fits: memory === "fits" };
  return memory ? { headroom: Number(memory) / 100 } : {};
}

function isOfSearches(state) {
  return STATES.searches.some(([own]) => own === state);
}

/** The beginning of a day in the reader's own time, or of one later, as the service reads it. */
function midnight(date, later) {
  if (!date) return null;
  const [year, month, day] = date.split("-").map(Number);
  return new Date(year, month - 1, day + later).toISOString();
}

/** A name is looked for anywhere, unless it says itself where. */
function globbed(name) {
  return /[*?]/.test(name) ? name : `*${name}*`;
}

function text(name, placeholder, more = {}) {
  return field(name, h("input", { type: "search", placeholder, maxlength: 190, spellcheck: "false", ...more }));
}

function day(name) {
  return field(name, h("input", { type: "date" }));
}

function select(name, all) {
  return field(name, h("select", {}, options(all)));
}

function field(name, control) {
  control.id = `filter-${name.toLowerCase()}`;
  return h("span", { class: "field" }, h("label", { for: control.id }, name), control);
}

function options(all) {
  return all.map(([value, says]) => h("option", { value }, says.length > 60 ? `${says.slice(0, 60)}…` : says));
}
