// The API key, where the service wants one: kept for this tab alone, sent in a header, never in a URL.
import { h } from "./element.js";

const NAME = "meshwright-key";
const SENDABLE = /^[!-~]+$/; // what a header can hold
let asking = null;
let told = () => {};

export function held() {
  return sessionStorage.getItem(NAME);
}

/** The header with which a request says its key. */
export function headers(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
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
    const said = h("p", { class: held() ? "bad" : "muted", role: held() ? "alert" : null }, why);
    const form = h(
      "form", { method: "dialog", onsubmit: entered },
      h("h2", { id: "key-title" }, "This service wants an API key"),
      said,
      h("label", { for: "key" }, "Key"), field,
      h("p", { class: "muted" }, "Kept in this tab until it is closed. An administrator makes one: ", h("code", {}, "meshwright-server keys create")),
      h("div", { class: "row" }, h("button", { class: "primary" }, "Use this key")),
    );
    const dialog = h("dialog", { "aria-labelledby": "key-title", oncancel: (event) => event.preventDefault(), onclose: () => dialog.isConnected && dialog.showModal() }, form);
    document.body.append(dialog);
    dialog.showModal();
    field.focus();

    function entered(event) {
      const given = field.value.trim();
      if (!SENDABLE.test(given)) {
        event.preventDefault();
        said.replaceWith(h("p", { class: "bad", role: "alert" }, "That is no key: one begins with mw_ and has no spaces."));
        return;
      }
      sessionStorage.setItem(NAME, given);
      field.value = "";
      dialog.remove();
      told(true);
      asking = null;
      resolve();
    }
  });
  return asking;
}
