// A file for another system: first what it does not say of the plan, then its text, then how it is used.
import { get, save } from "../../api.js";
import { copyButton } from "../../copy.js";
import { fill, h, link, path } from "../../element.js";
import { failed, loading } from "../../states.js";
import { count } from "../../units.js";
import { lossBox, whereFits } from "./refusal.js";
import { fetchStep, stepList } from "./steps.js";

const LINES = 400; // chosen: of a long file; the download has all

export async function exportPanel({ way, entry, guide, signal }) {
  const address = path`/v1/plans/${entry.id}/launch/${way.export}`;
  const found = await get(address, { signal });
  return whereFits(entry, () => (found.losses.length ? lossy() : whole(found, false)));

  function lossy() {
    const place = h("div");
    const ask = h("button", { type: "button", onclick: partial }, "Show what it can state");
    const isFramework = way.group === "frameworks";
    const title = isFramework ? `This file is not this plan: ${kinds(found.losses)} of it ${found.losses.length > 1 ? "are" : "is"} lost` : `${way.title} cannot state all of this plan: ${kinds(found.losses)} of it ${found.losses.length > 1 ? "are" : "is"} missing`;
    return [
      lossBox({ title, losses: found.losses, actions: [ask, isFramework && guide.target !== way.export ? link(path`/plans/${entry.id}/what-if?target=${way.export}`, `Plan for ${way.title}`) : null] }),
      place,
    ];

    async function partial() {
      ask.disabled = true;
      fill(place, loading(way.file));
      try {
        fill(place, whole(await get(address, { signal, query: { partial: true } }), true));
      } catch (problem) {
        if (signal.aborted) return;
        ask.disabled = false;
        fill(place, failed(problem));
      }
    }
  }

  function whole({ file, text, remarks }, isPartial) {
    const saved = () => save(new Blob([text]), file);
    return [
      remarks.length ? h("ul", { "aria-label": "Remarks" }, remarks.map((own) => h("li", { class: "name" }, own))) : null,
      h("h2", { class: "name" }, file),
      h("div", { class: "code" }, h("pre", { class: "file", tabindex: 0, role: "region", "aria-label": file }, beginning(text))),
      h("div", { class: "row" }, copyButton(text, file), h("button", { type: "button", onclick: saved }, "Download")),
      h("h2", {}, "How it is used"),
      stepList([fetchStep({ plan: entry.id, target: way.export, file, isPartial }), ...way.steps]),
    ];
  }
}

function kinds({ length }) {
  return `${count(length)} ${length > 1 ? "kinds of parts" : "kind of parts"}`;
}

/** The first lines of a text; of JSON in one line, with its structure. */
function beginning(text) {
  const lines = readable(text).split("\n");
  if (lines.length <= LINES) return lines.join("\n");
  return `${lines.slice(0, LINES).join("\n")}\n… ${count(lines.length - LINES)} more lines are in the file`;
}

function readable(text) {
  if (!text.startsWith("{") || text.trimEnd().includes("\n")) return text;
  return JSON.stringify(JSON.parse(text), null, 1);
}
