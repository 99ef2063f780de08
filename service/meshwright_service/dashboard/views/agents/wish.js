// Ask for a measurement: of one agent or of any, and for how long.
import { send } from "../../api.js";
import { fill, h, path } from "../../element.js";
import { failed } from "../../states.js";

const SIZES = [["as large as fits in the time", ""], ["16 MiB", 2 ** 24], ["256 MiB", 2 ** 28]];

export function wish(agents, { signal, go }) {
  const alive = agents.filter((own) => own.state === "alive");
  const who = h("select", { id: "who" }, h("option", { value: "" }, "any that is free"), alive.map((own) => h("option", { value: own.id }, own.agent.name)));
  const seconds = h("input", { id: "seconds", type: "number", min: 1, max: 86400, step: 1, value: 120, required: true });
  const largest = h("select", { id: "largest" }, SIZES.map(([name, value]) => h("option", { value }, name)));
  const button = h("button", { class: "primary" }, "Measure");
  const said = h("div", {});
  const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return h(
    "form", { class: "card wish no-print", "aria-label": "Ask for a measurement", onsubmit: asked },
    h("div", { class: "row" },
      h("label", { for: "who" }, "Agent"), who,
      h("label", { for: "seconds" }, "Seconds"), seconds,
      h("label", { for: "largest" }, "Largest message"), largest,
      button),
    said,
  );

  async function asked(event) {
    event.preventDefault();
    button.disabled = true;
    fill(said);
    try {
      const body = { seconds: Number(seconds.value), agent: who.value || undefined, largest_bytes: Number(largest.value) || undefined };
      const { body: job } = await send("POST", "/v1/calibrations:measure", body, { signal, headers: { "Idempotency-Key": key } });
      go(path`/jobs/${job.id}`);
    } catch (problem) {
      if (!signal.aborted) fill(said, failed(problem));
      button.disabled = false;
    }
  }
}
