// The API key, where the service wants one: kept for this tab alone, sent in a header, never in a URL.
import { h } from "./element.js";

const NAME = "meshwright-key";
let asking = null;
let told = () => {};

export function held() {
  return sessionStorage.getItem(NAME);
}

export function forget() {
  sessionStorage.removeItem(NAME);
}

/** Who wants to know whether there is a key, now and whenever that changes. */
export function onChange(listener) {
  told = listener;
  told(held() !== null);
}

/** Asks once for however many requests wait for it; resolves when there is a key to try. */
export function ask(why) {
  asking ??= new Promise((resolve) => {
    const field = h("input", { type: "password", id: "key", autocomplete: "off", required: true, spellcheck: "false" });
    const form = h(
      "form", { method: "dialog", onsubmit: entered },
      h("h2", { id: "key-title" }, "This service wants an API key"),
      h("p", { class: "muted", role: held() ? "alert" : null }, why),
      h("label", { for: "key" }, "Key"), field,
      h("p", { class: "muted" }, "Kept in this tab until it is closed. An administrator makes one: ", h("code", {}, "meshwright-server keys create")),
      h("div", { class: "row" }, h("button", { class: "primary" }, "Use this key")),
    );
    const dialog = h("dialog", { "aria-labelledby": "key-title", oncancel: (event) => event.preventDefault() }, form);
    document.body.append(dialog);
    dialog.showModal();
    field.focus();

    function entered() {
      sessionStorage.setItem(NAME, field.value.trim());
      field.value = "";
      dialog.remove();
      told(true);
      asking = null;
      resolve();
    }
  });
  return asking;
}
