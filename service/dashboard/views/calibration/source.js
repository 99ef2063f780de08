// Where a calibration is from, in a word: of a document, or of its entry in a list.
import { h } from "../../element.js";

const WORDS = {
  steps: ["good", "corrected by steps that training jobs took"],
  measured: ["good", "fitted to samples that an agent measured"],
  published: ["warn", "from published measurements; nothing is measured on your cluster"],
  "data sheet": ["warn", "shares that were chosen; nothing is measured"],
};

export function source({ anchored, fitted, curves = [], summary }) {
  const has = summary ?? { anchored, samples: fitted, devices: curves.length };
  const word = has.anchored ? "steps" : has.samples ? "measured" : has.devices ? "published" : "data sheet";
  const [mark, says] = WORDS[word];
  return h("span", { class: `tag ${mark}`, title: says }, word);
}
