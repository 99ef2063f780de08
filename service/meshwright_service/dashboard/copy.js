// Code and files to be copied.
import { fill, h } from "./element.js";

/** A button that copies a text; none where the browser has no clipboard, as over plain HTTP. */
export function copyButton(text, what = "") {
  if (!navigator.clipboard) return null;
  const said = h("span", { class: "muted", role: "status" });
  const copied = () => navigator.clipboard.writeText(text).then(() => fill(said, "copied"), () => fill(said, "the browser refuses to copy"));
  return [h("button", { type: "button", "aria-label": what ? `Copy ${what}` : null, onclick: copied }, "Copy"), said];
}

/** A block of code with its button; label: what it is. */
export function codeBlock(code, label) {
  return h("div", { class: "code" }, h("pre", { "aria-label": label, role: "region", tabindex: 0 }, code), h("div", { class: "row" }, copyButton(code, label)));
}
