// What one number is against another: a sign, a mark and a colour that all say the same.
import { h } from "./element.js";
import { change } from "./units.js";

/** less: whether less is better; text: amount => string with its unit. */
export function delta(one, other, { text, less = true }) {
  const apart = other - one;
  if (!Number.isFinite(apart) || Math.abs(apart) <= 1e-9 * Math.max(Math.abs(one), Math.abs(other))) return h("span", { class: "muted" }, "=");
  const better = apart < 0 === less;
  const share = one > 0 ? ` (${change(apart / one)})` : "";
  return h("span", { class: better ? "good" : "bad", title: better ? "better" : "worse" }, `${apart > 0 ? "▲ +" : "▼ −"}${text(Math.abs(apart))}${share}`);
}

/** A strategy as people write it: b@node n@gpu. */
export function strategy({ strategy: own = {}, partial = {}, followers = [] }) {
  const parts = Object.entries(own).filter(([, axes]) => axes.length).map(([factor, axes]) => `${factor}@${axes.join("@")}`);
  parts.push(...Object.keys(partial).map((axis) => `+${axis}`), ...followers.map((axis) => `?${axis}`));
  return parts.join(" ") || "replicated";
}
