// Tables: sorted by a click on the head, walked with j and k, opened with Enter.
import { h, fill } from "./element.js";
import { press } from "./keys.js";

/**
 * columns: {title, value: row => node or text, number, sort: row => number or text, width}; rows: any;
 * address: row => where Enter or a click leads; signal: of the view, if j and k are its.
 */
export function table({ columns, rows, caption, address, go, signal, label }) {
  let order = null; // {column, down}
  const body = h("tbody");
  const heads = columns.map((column) => {
    const title = column.sort ? h("button", { type: "button", onclick: () => sorted(column) }, column.title) : column.title;
    return h("th", { scope: "col", class: column.number ? "number" : null, title: column.says, style: column.width ? { width: column.width } : {} }, title);
  });
  draw();
  if (signal && address) press({ j: ["next row", () => move(1)], k: ["row before", () => move(-1)] }, signal);
  return h("div", { class: "scroll" }, h("table", { "aria-label": label }, caption ? h("caption", {}, caption) : null, h("thead", {}, h("tr", {}, heads)), body));

  function sorted(column) {
    order = { column, down: order?.column === column ? !order.down : Boolean(column.number) };
    columns.forEach((own, at) => heads[at].setAttribute("aria-sort", own !== column ? "none" : order.down ? "descending" : "ascending"));
    draw();
  }

  function draw() {
    const shown = order ? [...rows].sort(compare) : rows;
    fill(body, shown.map(drawn));
  }

  function compare(one, other) {
    const [a, b] = [order.column.sort(one), order.column.sort(other)];
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    return (a < b) !== order.down ? -1 : 1;
  }

  function drawn(row) {
    const cells = columns.map((column) => h("td", { class: column.number ? "number" : null }, column.value(row)));
    if (!address) return h("tr", {}, cells);
    const open = (event) => {
      if (event.target.closest("a, button, input, select, label") && event.target !== event.currentTarget) return;
      if (event.type === "click" || event.key === "Enter") go(address(row));
    };
    return h("tr", { tabindex: "0", onclick: open, onkeydown: open }, cells);
  }

  function move(step) {
    const all = [...body.children];
    const at = all.indexOf(document.activeElement.closest?.("tr"));
    all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + step))]?.focus();
  }
}
