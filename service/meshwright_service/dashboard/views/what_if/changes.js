// What is changed, as one reads it before one asks.
import { h } from "../../element.js";

/** changes: {name, from, to}; of a pin `from` or `to` alone. */
export function changesOf(changes, nothing = "Nothing yet: this is the request that the plan came of.") {
  if (!changes.length) return h("p", { class: "muted" }, nothing);
  return h("dl", { class: "facts" }, changes.map(({ name, from, to }) => [
    h("dt", {}, name),
    h("dd", { class: "name" }, from ? h("del", {}, from) : null, from && to ? " " : null, to ? h("ins", {}, to) : null),
  ]));
}
