// Exports: a plan for other systems. The differences stand before the command, as it may be another strategy.
import { get, save } from "../api.js";
import { fill, h, path } from "../element.js";
import { failed, loading } from "../states.js";
import { bytes, count } from "../units.js";
import { isOverfull } from "../verdict.js";

const LAYOUTS = { dtensor: "PyTorch (DTensor)", jax: "JAX", mindspore: "MindSpore" };
const LAUNCHERS = {
  "megatron-core": ["Megatron-LM", "args", "arguments"],
  torchtitan: ["torchtitan", "toml", "TOML"],
  fsdp2: ["PyTorch FSDP2", "py", "script"],
  accelerate: ["Accelerate", "yaml", "YAML"],
  deepspeed: ["DeepSpeed", "json", "JSON"],
  mindformers: ["MindFormers", "yaml", "YAML"],
};
const MOST = 20; // chosen: differences in the list; the file has all

/** Buttons, one a target, and what was made for the last one; name: of files, without an ending. */
export function exportsOf(entry, name, { signal }) {
  const made = h("div");
  const button = (target, says) => h("button", { type: "button", onclick: () => asked(target, says) }, says);
  return h(
    "div", {},
    h("div", { class: "row" }, "For ",
      Object.entries(LAYOUTS).map(([target, says]) => button(target, says)),
      Object.entries(LAUNCHERS).map(([target, [says]]) => button(target, says))),
    made,
  );

  async function asked(target, says) {
    fill(made, loading(`the plan for ${says}`));
    try {
      const found = await get(path`/v1/plans/${entry.id}/exports/${target}`, { signal, query: { partial: true } });
      const [, ending, format] = LAUNCHERS[target] ?? [says, "json", "JSON"];
      const lost = found.lost ?? (found.refused ?? []).map((own) => own.reason);
      const text = found.text ?? JSON.stringify(found);
      const written = () => save(new Blob([text]), `${name}.${target}.${ending}`);
      fill(made,
        refusal(entry),
        lost.length ? differences(lost, target in LAUNCHERS, says) : null,
        found.remarks?.length ? h("ul", { "aria-label": "Remarks" }, found.remarks.map((own) => h("li", { class: "name" }, own))) : null,
        found.text ? h("pre", { class: "scroll", tabindex: 0, "aria-label": `${format} for ${says}` }, text) : null,
        h("p", { class: "row" }, h("button", { type: "button", onclick: written }, `Download the ${format} for ${says}`), copying(text)));
    } catch (problem) {
      if (!signal.aborted) fill(made, failed(problem));
    }
  }
}

/** A button that copies; none where the browser has no clipboard, as over plain HTTP. */
function copying(text) {
  if (!navigator.clipboard) return null;
  const said = h("span", { class: "muted", role: "status" });
  const copied = () => navigator.clipboard.writeText(text).then(() => fill(said, "copied"), () => fill(said, "the browser refuses to copy"));
  return [h("button", { type: "button", onclick: copied }, "Copy"), said];
}

function refusal(entry) {
  return isOverfull(entry)
    ? h("div", { class: "state failed", role: "alert" }, h("strong", {}, "This plan does not fit"), h("p", {}, `It needs ${bytes(entry.memory_bytes)} of a device's ${bytes(entry.capacity_bytes)}.`))
    : null;
}

function differences(lost, isLauncher, says) {
  const number = count(lost.length);
  const title = isLauncher ? `These options are not this plan: ${number} ${lost.length > 1 ? "differences" : "difference"}` : `${number} ${lost.length > 1 ? "parts" : "part"} of this plan cannot be said to ${says}`;
  return h(
    "div", { class: "state failed", role: "alert" },
    h("strong", {}, title),
    h("ul", {}, lost.slice(0, MOST).map((own) => h("li", { class: "name" }, own))),
    lost.length > MOST ? h("p", { class: "muted" }, `and ${count(lost.length - MOST)} more.`) : null,
  );
}
