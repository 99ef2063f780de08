// The provenance of a calibration, of a document or of its entry in a list. Measured is what is fitted to samples alone.
import { h } from "../../element.js";
import { count } from "../../units.js";

const MARKS = {
  anchored: ["warn", "whole steps that training jobs reported scale all of another calibration"],
  measured: ["good", "fitted to samples that an agent measured"],
  published: ["warn", "from published measurements; nothing is measured on your cluster"],
  "data sheet": ["warn", "shares that were chosen; nothing is measured"],
};

/** anchored, measured, published or data sheet. */
export function provenance({ anchored, fitted, curves = [], summary }) {
  const has = summary ?? { anchored, samples: fitted, devices: curves.length };
  return has.anchored ? "anchored" : has.samples ? "measured" : has.devices ? "published" : "data sheet";
}

/** The same in words: anchored to 3 reported steps. */
export function provenanceOf(own) {
  const kind = provenance(own);
  if (kind !== "anchored") return kind;
  const steps = own.summary ? own.summary.observations : own.anchored.observations; // entries of earlier versions lack it
  return steps === 1 ? "anchored to 1 reported step" : `anchored to ${steps ? `${count(steps)} ` : ""}reported steps`;
}

/** The provenance as a tag. */
export function source(own) {
  const [mark, says] = MARKS[provenance(own)];
  return h("span", { class: `tag ${mark}`, title: says }, provenanceOf(own));
}

const ORIGINS = {
  anchored: ["warn", "anchored by observed steps"],
  measured: ["good", "measured in this cluster"],
  published: ["", "published measurements"],
  "data sheet": ["", "data sheet"],
};

/** A function that makes tags with the origin of a calibration's rates; entry: nothing for the planner's own. */
export function origin(entry) {
  const [mark, text] = ORIGINS[entry ? provenance(entry) : "published"];
  return () => h("span", { class: `tag ${mark}`.trim() }, text);
}
