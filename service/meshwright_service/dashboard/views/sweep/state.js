// The state of a sweep, and of one of its points, as a tag.
import { h } from "../../element.js";

const KINDS = { done: "good", cancelled: "warn", planned: "good", infeasible: "warn", refused: "bad", failed: "bad", deleted: "warn" };

export function sweepState({ state }) {
  return h("span", { class: `tag ${KINDS[state] ?? ""}`.trim() }, state);
}
