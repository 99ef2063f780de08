// Tables: sorted by a click on the head, walked with j and k, opened with Enter, brought up to date in place.
import { h, fill } from "./element.js";
import { press } from "./keys.js";

/**
 * columns: {title, value: row => node or text, number, sort: row => number or text, says, width}; rows: any;
 * address: row => where Enter or a click leads; signal: of the view, if j and k are its;
 * remote: {sort, onSort(sort)}: the service sorts; sort is a column's `by`, with a minus for descending; other columns do not sort;
 * key: row => what tells it from the others: then `.update(rows)` changes only what is another, and the focus stays;
 * what somebody edits, `data-editing`, is left alone.
 */
export function table({ columns, rows, caption, address, go, signal, label, key, remote }) {
  let order = null; // {column, down}
  const body = h("tbody");
  const kept = new Map(); // of each key its element and the row that it shows
  const heads = columns.map((column) => {
    const sorts = remote ? column.by : column.sort;
    const title = sorts ? h("button", { type: "button", onclick: () => (remote ? asked(column) : sorted(column)) }, column.title) : column.title;
    const way = remote && sorts ? { [column.by]: "ascending", [`-${column.by}`]: "descending" }[remote.sort] ?? "none" : null;
    return h("th", { scope: "col", class: column.number ? "number" : null, title: column.says, "aria-sort": way, style: column.width ? { width: column.width } : {} }, title);
  });
  draw();
  if (signal && address) press({ j: ["next row", () => move(1)], k: ["row before", () => move(-1)] }, signal);
  const made = h("div", { class: "scroll" }, h("table", { "aria-label": label }, caption ? h("caption", {}, caption) : null, h("thead", {}, h("tr", {}, heads)), body));
  made.update = (next) => {
    rows = next;
    draw();
  };
  return made;

  function asked({ by, ascends }) {
    const first = ascends ? by : `-${by}`;
    remote.onSort(remote.sort === first ? (ascends ? `-${by}` : by) : first);
  }

  function sorted(column) {
    order = { column, down: order?.column === column ? !order.down : Boolean(column.number) };
    columns.forEach((own, at) => heads[at].setAttribute("aria-sort", own !== column ? "none" : order.down ? "descending" : "ascending"));
    draw();
  }

  function draw() {
    const shown = order ? [...rows].sort(compare) : rows;
    if (key) keep(shown);
    else fill(body, shown.map((row) => drawn({ row })));
  }

  function keep(shown) {
    const wanted = new Set(shown.map(key));
    for (const [name, { element }] of kept) {
      if (wanted.has(name)) continue;
      if (element.contains(document.activeElement)) (element.nextSibling ?? element.previousSibling)?.focus();
      element.remove();
      kept.delete(name);
    }
    let next = body.firstChild;
    for (const row of shown) {
      let own = kept.get(key(row));
      if (!own) {
        own = { row };
        own.element = drawn(own);
        kept.set(key(row), own);
      } else {
        own.row = row;
        renew(own);
      }
      if (own.element === next) next = next.nextSibling;
      else body.insertBefore(own.element, next);
    }
  }

  function renew({ element, row }) {
    cells(row).forEach((cell, at) => {
      const old = element.children[at];
      if (!old.querySelector("[data-editing]") && !old.isEqualNode(cell)) old.replaceWith(cell);
    });
  }

  function compare(one, other) {
    const [a, b] = [order.column.sort(one), order.column.sort(other)];
    if (a === b) return 0;
    if (a === null || a === undefined) return 1;
    if (b === null || b === undefined) return -1;
    return (a < b) !== order.down ? -1 : 1;
  }

  function cells(row) {
    return columns.map((column) => h("td", { class: column.number ? "number" : null }, column.value(row)));
  }

  function drawn(own) {
    if (!address) return h("tr", {}, cells(own.row));
    const open = (event) => {
      if (event.target.closest("a, button, input, select, label") && event.target !== event.currentTarget) return;
      if (event.type === "click" || event.key === "Enter") go(address(own.row));
    };
    return h("tr", { tabindex: "0", onclick: open, onkeydown: open }, cells(own.row));
  }

  function move(step) {
    const all = [...body.children];
    const at = all.indexOf(document.activeElement.closest?.("tr"));
    all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + step))]?.focus();
  }
}
