// Graphs that are stored, and the upload of another one.
import { get, upload } from "../api.js";
import { may } from "../caller.js";
import { fill, h, link, path } from "../element.js";
import { empty, failed, loading } from "../states.js";
import { table } from "../table.js";
import { ago, bytes, count, moment, short } from "../units.js";

const PAGE = 200; // chosen: of a list
const ENCODINGS = { gz: "gzip", zst: "zstd" }; // of files, by the end of their names

export async function show({ root, signal, go, title }) {
  title("Graphs");
  const [found, editable] = await Promise.all([get("/v1/graphs", { signal, query: { page_size: PAGE } }), may("plan")]);
  fill(
    root,
    h("h1", {}, "Graphs"),
    editable ? uploading({ root, signal, go }) : null,
    found.graphs.length ? graphs(found.graphs, { signal, go }) : empty("No graph yet", "Upload one, or capture a model and submit it: ", h("code", {}, "meshwright plan GRAPH --topology NAME --server URL"), " or ", h("code", {}, "POST /v1/graphs"), "."),
    found.next_page_token ? h("p", { class: "muted" }, `The newest ${PAGE} are shown; the API has all.`) : null,
  );
}

/** A field for a graph file, which may also be dropped on the page; it leads to the form of its first plan. */
function uploading({ root, signal, go }) {
  const answer = h("div");
  const field = h("input", { type: "file", id: "graph-file", accept: ".json,.gz,.zst", onchange: () => field.files[0] && send(field.files[0]) });
  root.addEventListener("dragover", (event) => event.preventDefault(), { signal });
  root.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
  }, { signal });
  return h("div", { class: "card" },
    h("div", { class: "row" }, h("label", { for: field.id }, "Upload a graph"), field),
    h("p", { class: "muted" }, "A file of ", h("code", {}, "meshwright capture"), ": .json, .json.gz or .json.zst. It may be dropped on this page."), answer);

  async function send(file) {
    fill(answer, loading(`${file.name} to the service`));
    try {
      const stored = await upload("/v1/graphs", file, { encoding: ENCODINGS[file.name.split(".").at(-1)], signal });
      go(path`/graphs/${stored.id}/plan`);
    } catch (problem) {
      if (!signal.aborted) fill(answer, failed(problem));
      field.value = ""; // the same file may be chosen again
    }
  }
}

function graphs(rows, { signal, go }) {
  const plan = (own) => path`/graphs/${own.id}/plan`;
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
