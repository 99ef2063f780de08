// Sweeps: plans of one graph over several clusters, batches and targets.
import { get } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { empty } from "../states.js";
import { table } from "../table.js";
import { ago, count, moment, short } from "../units.js";
import { sweepState } from "./sweep/state.js";

const PAGE = 200; // chosen: of a list

export async function show({ root, signal, go, title }) {
  title("Sweeps");
  const found = await get("/v1/sweeps", { signal, query: { page_size: PAGE } });
  fill(
    root,
    h("h1", {}, "Sweeps"),
    found.sweeps.length
      ? sweeps(found.sweeps, { signal, go })
      : empty("No sweep yet", "A sweep plans one graph on several clusters and compares them. Start one from a stored ", link("/graphs", "graph"), ", or with ", h("code", {}, "meshwright sweep GRAPH --topology 'h100-{1,2,4}x8' --server URL"), "."),
    found.next_page_token ? h("p", { class: "muted" }, `The newest ${PAGE} are shown; the API has all.`) : null,
  );
}

function sweeps(rows, { signal, go }) {
  const address = (own) => path`/sweeps/${own.id}`;
  return table({
    label: "Sweeps", rows, signal, go, address,
    columns: [
      { title: "Name", value: (own) => link(address(own), h("span", { class: "name" }, own.name || own.graph_name || short(own.id))), sort: (own) => own.name },
      { title: "Graph", value: (own) => h("span", { class: "name" }, own.graph_name), sort: (own) => own.graph_name },
      { title: "State", value: (own) => sweepState(own) },
      { title: "Points", number: true, value: (own) => `${count(own.done)} of ${count(own.points)}`, sort: (own) => own.points },
      { title: "Key", value: (own) => own.key_name ?? "–" },
      { title: "Requested", value: (own) => h("time", { datetime: own.created_at, title: moment(own.created_at) }, ago(own.created_at)), sort: (own) => own.created_at },
    ],
  });
}
