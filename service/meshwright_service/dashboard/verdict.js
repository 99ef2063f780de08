// The verdict on a plan: whether it fits, and only of one that fits what its search proved.
import { h } from "./element.js";
import { percent } from "./units.js";

const OVERFULL = "does not fit";
// chosen, as the tolerance of the search: a step that is closer to its bound is called optimal
const CLOSED = 0.001;

/** Whether the fullest device needs more memory, the reserve included, than it has. */
export function isOverfull({ memory_bytes: needs, capacity_bytes: has }) {
  return needs > has;
}

/** {kind, word} of a plan's entry in a list: kind as a class of color.

    The gap is that of the step to the bound on every configuration that the request allows; plans
    without such a bound show the outcome of the search on its meshes. */
export function verdictOf(entry) {
  if (isOverfull(entry)) return { kind: "bad", word: OVERFULL };
  const { outcome, step_gap: gap = null } = entry;
  if (gap !== null && gap > CLOSED) return { kind: "", word: `gap ${percent(gap)}` };
  const isGood = outcome === "optimal" && !entry.warnings?.length;
  return { kind: isGood ? "good" : "", word: outcome };
}

/** The verdict as a tag: a mark and a colour that say the same. */
export function verdict(entry) {
  const { kind, word } = verdictOf(entry);
  return tag(kind, word);
}

/** A tag for each warning: {code, text}, or a code. */
export function warningTags(warnings = []) {
  return warnings.map((warning) => {
    const { code, text } = warning.code ? warning : { code: warning, text: null };
    return [" ", h("span", { class: "tag warn", title: text }, `! ${code.replaceAll("-", " ")}`)];
  });
}

/** The same tag for whatever needs more memory than a device has. */
export function overfull() {
  return tag("bad", OVERFULL);
}

function tag(kind, word) {
  return h("span", { class: `tag verdict ${kind}`.trim() }, kind ? `${{ good: "✓", bad: "✗" }[kind]} ${word}` : word);
}
