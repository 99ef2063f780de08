// The model of a new plan: a file, a stored graph, an example, or how one captures another.
import { get, send } from "../../api.js";
import { codeBlock } from "../../copy.js";
import { fill, h, path } from "../../element.js";
import { graphFile } from "../../graph_file.js";
import { failed, loading } from "../../states.js";
import { count, short } from "../../units.js";

const CAPTURES = [
  ["A Hugging Face model, from its configuration", "meshwright capture hf config.json --batch 64 --seq 8192 -o graph.json.gz"],
  ["A PyTorch module, from a function that returns a Recipe", "meshwright capture torch my_models:recipe --batch 32 -o graph.json.gz"],
  ["A decoder, from its dimensions", "meshwright capture decoder --layers 32 --hidden 4096 --heads 32 --kv-heads 8 --ffn 14336 --vocabulary 128256 --batch 64 --seq 8192 -o graph.json.gz"],
];

/** id: of the graph that is chosen; onChosen(id): another one, which the service has. */
export function graphChoice({ root, id, graphs, examples, mayPlan, signal, onChosen }) {
  const answer = h("div");
  return h("div", {},
    mayPlan ? graphFile({ root, label: "A graph file", signal, onStored: (own) => onChosen(own.id) }) : null,
    h("div", { class: "choices" },
      choice("stored-graph", "Stored graphs", graphs.map((own) => [own.id, `${own.name || short(own.id)} · ${count(own.summary.parameter_elements)} parameters`]), graphs.some((own) => own.id === id) ? id : "", onChosen),
      mayPlan ? choice("example", "Examples", examples.map(({ name, symbols }) => [name, `${name} · batch ${count(symbols.batch)}, seq ${count(symbols.seq)}`]), "", example) : null),
    answer,
    h("details", {}, h("summary", {}, "A model that is not captured yet"),
      h("p", { class: "muted" }, "A capture reads no weights and needs no device. Drop its file on this page."),
      CAPTURES.map(([says, code]) => [h("p", {}, says), codeBlock(code, says)])));

  async function example(name) {
    fill(answer, loading(name));
    try {
      const { body } = await send("POST", "/v1/graphs", await get(path`/v1/examples/${name}`, { signal }), { signal });
      onChosen(body.id);
    } catch (problem) {
      if (!signal.aborted) fill(answer, failed(problem));
    }
  }
}

function choice(id, label, options, value, onChosen) {
  const control = h("select", { id, onchange: () => control.value && onChosen(control.value) },
    h("option", { value: "" }, options.length ? "choose one" : "none"), options.map(([own, says]) => h("option", { value: own, selected: own === value }, says)));
  return h("div", { class: "what-if-field" }, h("label", { for: id }, label), h("span", { class: "row" }, control));
}
