// A graph file: chosen or dropped, sent to the service.
import { upload } from "./api.js";
import { fill, h } from "./element.js";
import { failed, loading } from "./states.js";

const ENCODINGS = { gz: "gzip", zst: "zstd" }; // of files, by the end of their names

/** A field for a graph file, which may also be dropped on `root`; onStored(entry): the service has it. */
export function graphFile({ root, label, signal, onStored }) {
  const answer = h("div");
  const field = h("input", { type: "file", id: "graph-file", accept: ".json,.gz,.zst", "aria-describedby": "graph-file-says", onchange: () => field.files[0] && send(field.files[0]) });
  root.addEventListener("dragover", (event) => event.preventDefault(), { signal });
  root.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) send(event.dataTransfer.files[0]);
  }, { signal });
  return h("div", {},
    h("div", { class: "row" }, h("label", { for: field.id }, label), field),
    h("p", { class: "muted", id: "graph-file-says" }, "A file of ", h("code", {}, "meshwright capture"), ": .json, .json.gz or .json.zst. It may be dropped on this page."), answer);

  async function send(file) {
    fill(answer, loading(`${file.name} to the service`));
    field.removeAttribute("aria-invalid");
    try {
      onStored(await upload("/v1/graphs", file, { encoding: ENCODINGS[file.name.split(".").at(-1)], signal }));
    } catch (problem) {
      if (signal.aborted) return;
      field.value = ""; // the same file may be chosen again
      field.setAttribute("aria-invalid", "true");
      fill(answer, failed(problem));
    }
  }
}
