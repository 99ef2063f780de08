// Pins: those that the plan has, each to be taken away, and new ones as people type them.
import { fill, h } from "../../element.js";
import { readPin, writePin } from "./notation.js";

/** {element, pins(), added(), removed(), changes()}; added, removed: as text. */
export function pinsOf(original, { added, removed, onChange }) {
  const before = original.map((pin) => ({ pin, text: writePin(pin) }));
  const gone = new Set(removed);
  const list = h("ul", { class: "pins" });
  const field = h("input", { id: "ask-pin", placeholder: "*.q_proj:n=gpu", spellcheck: "false", autocomplete: "off", "aria-describedby": "hint-pin fault-pin", onkeydown: pressed });
  const fault = h("span", { class: "bad", id: "fault-pin", role: "alert" });
  const element = h("div", {}, list,
    h("div", { class: "what-if-field" }, h("label", { for: field.id }, "New pin"),
      h("span", { class: "row" }, field, h("button", { type: "button", onclick: add }, "Add")),
      h("span", { class: "muted hint", id: "hint-pin" }, "ops:factor=axis+axis, ops:data_parallel, or cuts ops:((dp,1),_)->((dp,1),); ops is a glob, axes are of the mesh or levels of the topology"), fault));
  let more = added.map((text) => ({ text, pin: understood(text) })).filter(({ pin }) => pin);
  draw();
  return {
    element,
    pins: () => [...before.filter(({ text }) => !gone.has(text)), ...more].map(({ pin }) => pin),
    added: () => more.map(({ text }) => text),
    removed: () => before.map(({ text }) => text).filter((text) => gone.has(text)),
    changes: () => [
      ...before.filter(({ text }) => gone.has(text)).map(({ text }) => ({ name: "Pin", from: text })),
      ...more.map(({ text }) => ({ name: "Pin", to: text })),
    ],
  };

  function draw() {
    fill(list,
      before.map(({ text }) => entry(text, gone.has(text), () => (gone.has(text) ? gone.delete(text) : gone.add(text)))),
      more.map((own) => entry(own.text, false, () => (more = more.filter((other) => other !== own)))),
      before.length || more.length ? null : h("li", { class: "muted" }, "none: the search chooses every strategy"));
  }

  function entry(text, isGone, turn) {
    const does = isGone ? "Keep" : "Take away";
    return h("li", {}, h(isGone ? "del" : "code", { class: "name" }, text), " ",
      h("button", { type: "button", class: "quiet", "aria-label": `${does} ${text}`, onclick: () => { turn(); draw(); onChange(); field.focus(); } }, isGone ? "keep" : "take away"));
  }

  function pressed(event) {
    if (event.key !== "Enter") return;
    event.preventDefault();
    add();
  }

  function add() {
    const text = field.value.trim();
    if (!text) return field.focus();
    const pin = understood(text);
    if (!pin) return field.focus();
    more = [...more.filter((own) => own.text !== text), { pin, text }];
    field.value = "";
    draw();
    onChange();
    field.focus();
  }

  function understood(text) {
    try {
      const pin = readPin(text);
      fill(fault);
      return pin;
    } catch (error) {
      fill(fault, error.message);
      return null;
    }
  }
}
