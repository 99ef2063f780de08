// The way out of the store: what goes with a plan is named before anybody confirms it.
import { send } from "../api.js";
import { ask } from "../confirmation.js";
import { h, path } from "../element.js";
import { count, short } from "../units.js";

/** A section with a button, for those who may; gone(): the plan is no more. */
export function removal({ entry, certificate, observations }, { signal, gone }) {
  return h("section", { "aria-labelledby": "removal", class: "no-print" },
    h("h2", { id: "removal" }, "Delete it"),
    h("div", { class: "row" }, h("button", { type: "button", class: "danger", onclick: remove }, "Delete this plan …"), h("span", { class: "muted" }, "for everybody of this tenant, and for good")));

  function remove() {
    ask({
      title: `Delete ${entry.name || "this plan"}?`,
      body: [
        h("p", {}, "With the plan ", h("code", {}, short(entry.id)), " on ", h("span", { class: "name" }, entry.topology_name || short(entry.topology)), " go"),
        h("ul", {}, goes().map((what) => h("li", { class: "name" }, what))),
        h("p", { class: "muted" }, "Its graph, topology and calibration stay. Links to the plan lead nowhere from then on, and training jobs cannot load it any more."),
      ],
      keep: "Keep it",
      sure: "Delete the plan",
      act: async () => {
        await send("DELETE", path`/v1/plans/${entry.id}`, undefined, { signal });
        gone();
      },
      signal,
    });
  }

  function goes() {
    const measured = observations.length;
    return [
      entry.labels.length ? `its label${entry.labels.length > 1 ? "s" : ""} ${entry.labels.join(", ")}` : null,
      certificate ? `the certificate of its execution (${certificate.outcome})` : null,
      measured ? `${count(measured)} observation${measured > 1 ? "s" : ""} of measured steps` : null,
      "the searches that found it",
    ].filter(Boolean);
  }
}
