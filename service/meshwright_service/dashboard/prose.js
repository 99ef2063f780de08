// Texts of any length: the beginning of a long one, the rest on a click.
import { h } from "./element.js";

const MOST = 400; // chosen: characters that do not push what follows off the page
const HEAD = 120;

export function prose(text) {
  if (text.length <= MOST) return h("p", { class: "name" }, text);
  const cut = [...text].slice(0, HEAD).join("");
  return h("details", {}, h("summary", { class: "name" }, `${cut} …`), h("p", { class: "name" }, text));
}
