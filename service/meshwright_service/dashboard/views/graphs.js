// Graphs that are stored, and the upload of another one.
import { get } from "../api.js";
import { may } from "../caller.js";
import { fill, h, link, path } from "../element.js";
import { graphFile } from "../graph_file.js";
import { empty } from "../states.js";
import { table } from "../table.js";
import { ago, bytes, count, moment, short } from "../units.js";

const PAGE = 200; // chosen: of a list

export async function show({ root, signal, go, title }) {
  title("Graphs");
  const [found, editable] = await Promise.all([get("/v1/graphs", { signal, query: { page_size: PAGE } }), may("plan")]);
  fill(
    root,
    h("h1", {}, "Graphs"),
    editable ? h("div", { class: "card" }, graphFile({ root, label: "Upload a graph", signal, onStored: ({ id }) => go(path`/new?graph=${id}`) })) : null,
    found.graphs.length ? graphs(found.graphs, { signal, go }) : empty("No graph yet", "Upload one, or capture a model and submit it: ", h("code", {}, "meshwright plan GRAPH --topology NAME --server URL"), " or ", h("code", {}, "POST /v1/graphs"), "."),
    found.next_page_token ? h("p", { class: "muted" }, `The newest ${PAGE} are shown; the API has all.`) : null,
  );
}

function graphs(rows, { signal, go }) {
  const plan = (own) => path`/new?graph=${own.id}`;
  return table({
    label: "Graphs", rows, signal, go, address: plan,
    columns: [
      { title: "Name", value: (own) => link(plan(own), h("span", { class: "name" }, own.name || short(own.id))), sort: (own) => own.name },
      { title: "Ops", number: true, value: (own) => count(own.summary.ops), sort: (own) => own.summary.ops },
      { title: "Parameters", number: true, value: (own) => `${count(own.summary.parameter_elements)}, ${bytes(own.summary.parameter_bytes)}`, sort: (own) => own.summary.parameter_elements },
      { title: "Sizes", value: (own) => h("span", { class: "name" }, Object.entries(own.summary.symbols).map(([name, size]) => `${name} ${count(size)}`).join(", ")) },
      { title: "Stored", value: (own) => h("time", { datetime: own.created_at, title: moment(own.created_at) }, ago(own.created_at)), sort: (own) => own.created_at },
      { title: "Actions", value: (own) => [link(plan(own), "Plan it"), " · ", link(path`/graphs/${own.id}/sweep`, "Sweep it")] },
    ],
  });
}
