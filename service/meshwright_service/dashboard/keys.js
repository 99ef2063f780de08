// Keys, and the list of them. A view's own keys last as long as it is shown.
import { h } from "./element.js";

const bound = new Map();
let first = null; // of a pair such as "g p"

/** press({"j": ["next row", f]}, signal): until the signal. */
export function press(keys, signal) {
  for (const [name, [says, does]] of Object.entries(keys)) {
    const own = { says, does };
    bound.set(name, own);
    signal?.addEventListener("abort", () => bound.get(name) === own && bound.delete(name));
  }
}

export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const field = event.target.closest("input, select, textarea, [contenteditable]");
    if (field) {
      if (event.key === "Escape") field.blur();
      return;
    }
    const found = bound.get(first ? `${first} ${event.key}` : event.key);
    const begins = !first && [...bound.keys()].some((name) => name.startsWith(`${event.key} `));
    first = begins ? event.key : null;
    if (found) {
      event.preventDefault();
      found.does(event);
    }
  });
}

/** All keys that mean something now. */
export function help() {
  const rows = [...bound].map(([name, { says }]) =>
    h("tr", {}, h("td", {}, name.split(" ").map((one) => [h("kbd", {}, shown(one)), " "])), h("td", {}, says)),
  );
  const dialog = h(
    "dialog", { "aria-labelledby": "keys-title", onclose: () => dialog.remove() },
    h("h2", { id: "keys-title" }, "Keys"),
    h("table", {}, h("tbody", {}, rows)),
    h("form", { method: "dialog" }, h("div", { class: "row" }, h("button", { autofocus: true }, "Close"))),
  );
  document.body.append(dialog);
  dialog.showModal();
}

function shown(name) {
  return { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space" }[name] ?? name;
}
