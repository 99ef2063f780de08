// Ops by a part of their names; choosing one opens what it is in.
import { get } from "../api.js";
import { fill, h, path } from "../element.js";
import { count } from "../units.js";

const WAIT_MS = 150; // chosen: after the last letter

/** choose: ({op, box, open}) => …, of one that was chosen. */
export function search(plan, choose, signal) {
  const list = h("ul", { class: "found", role: "listbox", "aria-label": "Ops found", id: "found", hidden: true });
  const said = h("span", { class: "muted", role: "status" });
  const field = h("input", {
    type: "search", "data-search": true, placeholder: "Find an op ( / )", "aria-label": "Find an op by a part of its name", autocomplete: "off",
    role: "combobox", "aria-controls": "found", "aria-expanded": "false", maxlength: "200", oninput: later, onkeydown: keyed,
  });
  let timer = null;
  let asked = null;
  signal.addEventListener("abort", () => clearTimeout(timer));
  return h("div", { class: "search" }, field, said, list);

  function later() {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  }

  async function ask() {
    asked?.abort();
    asked = new AbortController();
    const text = field.value.trim();
    if (!text) {
      close();
      said.textContent = "";
      return;
    }
    try {
      const found = await get(path`/v1/plans/${plan}/layout`, { signal: asked.signal, query: { search: text } });
      const all = found.found ?? [];
      said.textContent = found.matches > all.length ? `${count(found.matches)} ops, the first ${all.length}` : `${count(all.length)} op${all.length === 1 ? "" : "s"}`;
      fill(list, all.map((own) => h("li", { role: "option", tabindex: "-1", class: "name", onclick: () => take(own), onkeydown: (event) => event.key === "Enter" && take(own) }, own.op)));
      list.hidden = !all.length;
      field.setAttribute("aria-expanded", String(all.length > 0));
    } catch (error) {
      if (error.name !== "AbortError") said.textContent = error.message;
    }
  }

  function take(own) {
    close();
    choose(own);
  }

  function close() {
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
  }

  function keyed(event) {
    if (event.key === "Enter" && list.firstChild) {
      event.preventDefault();
      list.firstChild.click();
    } else if (event.key === "ArrowDown" && !list.hidden) {
      event.preventDefault();
      list.firstChild.focus();
      list.onkeydown = walk;
    } else if (event.key === "Escape") close();
  }

  function walk(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!step) return;
    event.preventDefault();
    (document.activeElement[step] ?? (event.key === "ArrowUp" ? field : document.activeElement)).focus();
  }
}
