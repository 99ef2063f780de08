// The choice of the columns of a table: in the address, else as it was chosen last in this browser.
import { fill, h } from "../../element.js";

const STORED = "plans.columns";

/** {element, shown()}: columns: {id, title, says}; defaults: ids; onChange: after another choice. */
export function columnChooser({ columns, defaults, query, keep, onChange }) {
  const ids = new Set(columns.map(({ id }) => id));
  const valid = (text) => text?.split(",").filter((id) => ids.has(id)) ?? [];
  const given = valid(query.get("columns"));
  let shown = new Set(given.length ? given : valid(stored()).length ? valid(stored()) : defaults);
  const held = h("div");
  const element = h("details", { class: "columns-chooser", ontoggle: () => (element.open ? draw() : fill(held)) }, h("summary", {}, "Columns"), held);
  return { element, shown: () => shown };

  function draw() {
    fill(held, h("fieldset", { class: "row" }, h("legend", { class: "unseen" }, "Columns of the list"),
      columns.map(({ id, title, says }) => h("label", { title: says }, h("input", { type: "checkbox", value: id, checked: shown.has(id), onchange: changed }), title)),
      h("button", { type: "button", onclick: () => { choose(defaults); draw(); held.querySelector("button").focus(); } }, "Defaults")));
  }

  function changed() {
    choose([...held.querySelectorAll("input:checked")].map((box) => box.value));
  }

  function choose(next) {
    shown = new Set(next);
    const isDefault = next.length === defaults.length && defaults.every((id) => shown.has(id));
    const text = isDefault ? null : columns.filter(({ id }) => shown.has(id)).map(({ id }) => id).join(",");
    store(text);
    keep({ columns: text });
    onChange();
  }
}

function stored() {
  try {
    return localStorage.getItem(STORED);
  } catch {
    return null; // a browser without storage has the defaults
  }
}

function store(text) {
  try {
    if (text) localStorage.setItem(STORED, text);
    else localStorage.removeItem(STORED);
  } catch {
    // the address keeps the choice
  }
}
