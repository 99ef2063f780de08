// One control of the form: what it was, what it is now, and where in the request it stands.
import { fill, h } from "../../element.js";

/**
 * of(body) -> what stands there; write(body, value): puts it there; options: of a list; offers: of a text;
 * says: a hint; means(value, said): what the value comes to, said(name) of the others; onlyIf(said): where it means nothing it is
 * not shown and changes nothing; named(value): what the field says for a value of the address, such as an id; onFollow(field, other): another has changed; rare: few look for it.
 */
export class Field {
  constructor(given, asked) {
    Object.assign(this, given);
    const stands = this.of(asked);
    this.original = stands === undefined || stands === null || stands === false ? "" : String(stands);
    this.control = this.#made();
    this.meaning = h("span", { class: "muted" });
    this.error = h("span", { class: "bad", id: `fault-${this.name}` });
    this.element = h("div", { class: "what-if-field", "data-pointer": this.pointer },
      h("label", { for: this.control.id }, this.label),
      h("span", { class: "row" }, this.control, this.unit ?? null, this.offers ? this.#offered() : null),
      this.says ? h("span", { class: "muted hint", id: `hint-${this.name}` }, this.says) : null,
      this.meaning, this.error);
    this.set(this.original);
  }

  /** Begins with what the address says, if it says anything; tells of every change. */
  take(value, onChange) {
    if (value !== null) this.set(this.named?.(value) ?? value);
    const told = () => onChange(this);
    this.control.addEventListener("change", told);
    this.control.addEventListener("input", told);
  }

  set(value) {
    this.control.value = value;
    if (this.control.value !== value) this.control.value = this.original;
  }

  /** Brought up to date with what the others say. */
  mean(said) {
    this.control.disabled = this.onlyIf ? !this.onlyIf(said) : false;
    this.element.hidden = this.control.disabled;
    fill(this.meaning, this.means?.(this.said(), said));
  }

  follow(other) {
    this.onFollow?.(this, other);
  }

  said() {
    return this.control.value.trim();
  }

  isChanged() {
    return !this.control.disabled && this.said() !== this.original;
  }

  /** Whether the request or the address says anything other than what is usual. */
  isSaid() {
    return this.said() !== String(this.unsaid ?? "");
  }

  change() {
    if (!this.isChanged()) return [];
    return [{ name: this.label, from: this.#shown(this.original), to: this.#shown(this.said()) }];
  }

  into(body) {
    if (this.isChanged()) this.write(body, this.said());
  }

  /** Says what is wrong beside the control; null: nothing is. */
  tell(detail) {
    fill(this.error, detail);
    this.control.toggleAttribute("aria-invalid", detail !== null);
  }

  /** The same, with the focus on the control. */
  fault(detail) {
    this.tell(detail);
    if (detail === null) return;
    const hidden = this.element.closest("details");
    if (hidden) hidden.open = true;
    this.control.focus();
  }

  #made() {
    const more = { id: `ask-${this.name}`, required: this.required, "aria-describedby": this.says ? `hint-${this.name} fault-${this.name}` : `fault-${this.name}` };
    if (this.options) return h("select", more, this.options.map(([value, says]) => h("option", { value }, says)));
    const { type = "text", min, max, step, placeholder, pattern } = this;
    return h("input", { ...more, type, min, max, step, placeholder, pattern, spellcheck: "false", autocomplete: "off", list: this.offers ? `offers-${this.name}` : null });
  }

  #offered() {
    return h("datalist", { id: `offers-${this.name}` }, this.offers.map((value) => h("option", { value })));
  }

  #shown(value) {
    const option = this.options?.find(([own]) => own === value)?.[1];
    const text = option ?? (value === "" ? String(this.placeholder ?? "default") : value);
    return this.unit && Number.isFinite(Number(text)) ? `${text}\u00a0${this.unit}` : text;
  }
}
