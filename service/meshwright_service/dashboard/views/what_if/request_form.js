// The form of a request: its fields and pins, what they change, and the request itself, sent.
import { pages, send } from "../../api.js";
import { fill, h, path } from "../../element.js";
import { failed } from "../../states.js";
import { fieldsOf } from "./fields.js";
import { pinsOf } from "./pins.js";

const MOST = 200; // chosen: of topologies and calibrations that a list offers

/** The stored topologies and calibrations that fields offer. */
export async function offersOf(signal) {
  const [topologies, calibrations] = await Promise.all([some("/v1/topologies", "topologies", signal), some("/v1/calibrations", "calibrations", signal)]);
  return { topologies, calibrations };
}

/**
 * asked: the request that is changed; symbols: of its graph; offers: offersOf(); query: of the address, from which
 * fields begin; onChange(): a field or a pin is another.
 */
export class RequestForm {
  #asked;
  #changed;

  constructor({ asked, symbols, offers, query, onChange }) {
    this.#asked = asked;
    this.#changed = onChange;
    this.fields = fieldsOf({ asked, symbols, ...offers });
    for (const field of this.fields) field.take(query.get(field.name), (own) => this.#follow(own));
    this.pins = pinsOf(asked.pins ?? [], { added: query.getAll("pin"), removed: query.getAll("unpin"), onChange });
  }

  field(name) {
    return this.fields.find((own) => own.name === name);
  }

  /** The fields mean what the others say: after every change, and once before the first. */
  mean() {
    for (const own of this.fields) own.mean((name) => this.field(name)?.said() ?? "");
  }

  /** Says a value as if somebody had typed it. */
  say(name, value) {
    const field = this.field(name);
    field.set(value);
    this.#follow(field);
  }

  body() {
    const made = structuredClone(this.#asked);
    for (const field of this.fields) field.into(made);
    made.pins = this.pins.pins();
    if (!made.pins.length) delete made.pins;
    return made;
  }

  /** What the address keeps. */
  address() {
    return { ...Object.fromEntries(this.fields.map((own) => [own.name, own.isChanged() ? own.said() : null])), pin: this.pins.added(), unpin: this.pins.removed() };
  }

  changes() {
    return [...this.fields.flatMap((own) => own.change()), ...this.pins.changes()];
  }

  /** The fields of a group; what few look for stands behind a line, unless something of it is said. */
  group(name, without = []) {
    const own = this.fields.filter((field) => field.group === name && !without.includes(field.name));
    const rare = own.filter((field) => field.rare);
    return [
      own.filter((field) => !field.rare).map((field) => field.element),
      rare.length ? h("details", { open: rare.some((field) => field.isSaid()) }, h("summary", {}, `${rare.length} more`), rare.map((field) => field.element)) : null,
    ];
  }

  /** Sends the request, and goes where its answer is; beside: the plan that the new one is compared with. */
  async send({ wrong, beside, go, signal }) {
    fill(wrong);
    for (const field of this.fields) field.fault(null);
    try {
      const answer = await send("POST", "/v1/plan", this.body(), { signal });
      if (signal.aborted) return;
      const plan = answer.headers.get("content-location")?.split("/").at(-1);
      const job = answer.headers.get("location")?.split("/").at(-1);
      if (plan && plan === beside) fill(wrong, h("p", { class: "warn", role: "alert" }, "It comes to this very plan: the change makes no difference."));
      else if (plan) go(beside ? path`/compare?plan=${beside}&plan=${plan}` : path`/plans/${plan}`);
      else go(path`/jobs/${job}` + (beside ? path`?beside=${beside}` : ""));
    } catch (error) {
      if (signal.aborted) return;
      fill(wrong, failed(error));
      for (const { pointer, detail } of [...(error.errors ?? [])].reverse()) this.#fieldAt(pointer ?? "")?.fault(detail);
    }
  }

  #follow(field) {
    if (field.name === "topology") this.field("calibration").follow(field);
    this.#changed();
  }

  /** The field of a place in the request, of what it is in, or the first of what is in it. */
  #fieldAt(pointer) {
    const within = this.fields.filter((field) => `${pointer}/`.startsWith(`${field.pointer}/`));
    const nearest = within.reduce((best, field) => (!best || field.pointer.length > best.pointer.length ? field : best), null);
    const isPart = pointer.split("/").length > 2; // what is said of all of the setup is of no one field
    return nearest ?? (isPart ? this.fields.find((field) => field.pointer.startsWith(`${pointer}/`)) : undefined);
  }
}

/** A part of the form with its title. */
export function together(title, ...content) {
  return h("div", { class: "card", role: "group", "aria-label": title }, h("h2", {}, title), content);
}

async function some(address, noun, signal) {
  const found = [];
  for await (const one of pages(address, noun, { signal, query: { page_size: MOST } })) if (found.push(one) >= MOST) break;
  return found;
}
