// What people call a plan, and a way to say so in place.
import { send } from "../../api.js";
import { fill, h, path } from "../../element.js";
import { short } from "../../units.js";

const LONGEST = 64; // as the service has it

/** The labels of a plan entry, with a button that makes them an editor for those who may. */
export function labels(plan, { editable }) {
  let own = [...plan.labels];
  const cell = h("div", { class: "labels" });
  const edit = editable && h("button", { type: "button", class: "quiet", "aria-label": `Labels of ${plan.name || short(plan.id)}`, onclick: opened }, "edit");
  closed();
  return cell;

  function closed() {
    delete cell.dataset.editing;
    const none = own.length || editable ? null : h("span", { class: "muted" }, "none");
    fill(cell, own.map((label) => h("span", { class: "tag clip", title: label }, label)), none, edit);
  }

  function opened() {
    const field = h("input", { type: "text", maxlength: LONGEST, "aria-label": "New label", placeholder: "new label", size: 12, onkeydown: pressed });
    const wrong = h("span", { class: "bad", role: "alert" });
    const tags = h("span", { class: "row" });
    draw();
    cell.dataset.editing = "";
    fill(cell, tags, h("form", { class: "row", onsubmit: added }, field, h("button", {}, "Add"), h("button", { type: "button", onclick: left }, "Done")), wrong);
    field.focus();

    function draw() {
      fill(tags, own.map((label) => h("button", { type: "button", class: "tag", "aria-label": `Take away ${label}`, onclick: () => change({ remove: [label] }) }, h("span", { class: "clip" }, label), " ×")));
    }

    function pressed(event) {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      left();
    }

    function added(event) {
      event.preventDefault();
      const given = field.value.trim();
      if (!given) return left();
      return change({ add: [given] });
    }

    async function change(body) {
      try {
        const answer = await send("PATCH", path`/v1/plans/${plan.id}/labels`, body);
        own = answer.body.labels;
        plan.labels = own;
        field.value = "";
        fill(wrong);
        draw();
      } catch (error) {
        fill(wrong, error.errors?.[0]?.detail ?? error.detail ?? error.message);
      }
      field.focus();
    }
  }

  function left() {
    closed();
    edit.focus();
  }
}
