// A question before something that cannot be undone: a dialog whose focus is on the way back.
import { fill, h } from "./element.js";
import { failed } from "./states.js";

/**
 * Ask; on the second button act(), which may take its time. The dialog closes once act() has worked,
 * and shows the problem where it has not.
 * title, body: what is asked. keep, sure: the words on the two buttons.
 */
export function ask({ title, body, keep, sure, act, signal }) {
  const trouble = h("div");
  const back = h("button", { type: "button", onclick: () => dialog.close() }, keep);
  const button = h("button", { class: "danger" }, sure);
  const dialog = h("dialog", { "aria-labelledby": "sure-title", onclose: () => dialog.remove() },
    h("h2", { id: "sure-title", class: "name" }, title),
    body,
    h("form", { onsubmit: confirmed }, trouble, h("div", { class: "row" }, back, button)));
  signal.addEventListener("abort", () => dialog.remove(), { once: true });
  document.body.append(dialog);
  dialog.showModal();
  back.focus();

  async function confirmed(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      await act();
      dialog.close();
    } catch (problem) {
      if (signal.aborted) return;
      fill(trouble, failed(problem));
      button.disabled = false;
      back.focus();
    }
  }
}
