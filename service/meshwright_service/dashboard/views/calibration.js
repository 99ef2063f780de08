// One calibration: where it is from, how well it tells what was measured, and every constant.
import { get } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { prose } from "../prose.js";
import { empty } from "../states.js";
import { count, percent, short, time } from "../units.js";
import { constants } from "./calibration/constants.js";
import { errors } from "./calibration/errors.js";
import { fits } from "./calibration/fits.js";
import { source } from "./calibration/source.js";
import { aged } from "./topology/profiles.js";

export async function show({ root, params, query, signal, keep, title }) {
  const id = params.calibration;
  const [own, found, plans] = await Promise.all([
    get(path`/v1/calibrations/${id}`, { signal }),
    get(path`/v1/calibrations/${id}/residuals`, { signal }),
    get("/v1/plans", { signal, query: { calibration: id, page_size: 5 } }),
  ]);
  const samples = found.samples ? await get(path`/v1/samples/${found.samples}`, { signal }) : null;
  title(own.name);
  fill(
    root,
    h("h1", {}, "Calibration ", h("span", { class: "name" }, own.name), " ", source(own)),
    facts(own, samples, found, plans),
    samples?.notes?.length ? h("ul", {}, samples.notes.map((note) => h("li", {}, prose(note)))) : null,
    prose(own.source),
    found.sampled?.length
      ? [errors(found), fits(found, query.get("kind"), (kind) => keep({ kind }))]
      : empty("No samples of it are known", "What was published or chosen has none here; what was fitted elsewhere has them there."),
    constants(own, query.get("device"), (device) => keep({ device })),
    h("p", { class: "muted" }, "Document ", link(path`/v1/calibrations/${id}`, h("code", {}, short(id)))),
  );
}

function facts(own, samples, found, plans) {
  const rows = [];
  if (samples) {
    rows.push(
      ["Measured", [aged(samples.measured_at), " over ", samples.backend, samples.complete === false ? h("span", { class: "warn" }, ", not all that was planned") : null]],
      ["In", link(path`/topologies/${found.topology}`, h("span", { class: "name" }, samples.topology.name || samples.topology.device.name))],
      ["Samples", [`${count((samples.kernels ?? []).length)} kernels, ${count((samples.collectives ?? []).length)} collectives, profile `, link(path`/v1/samples/${found.samples}`, h("code", {}, short(found.samples)))]],
    );
    const software = Object.entries(samples.software ?? {});
    if (software.length) rows.push(["Software", h("span", { class: "name" }, software.map(([name, version]) => `${name} ${version}`).join(", "))]);
  }
  if (own.fitted) rows.push(["Median error", h("strong", {}, percent(own.fitted.median_error))]);
  if (own.anchored) {
    rows.push(["Anchored", [`all takes ${own.anchored.ratio.toFixed(3)} times as long as `, link(path`/calibrations/${own.anchored.calibration}`, "another one"), ` says, by ${count(own.anchored.observations)} reported ${own.anchored.observations === 1 ? "step" : "steps"} `, own.anchored.stack ? ["of ", h("span", { class: "name" }, own.anchored.stack)] : null]]);
  }
  rows.push(
    ["Launch", time(own.launch_ns)],
    ["Plans", plans.plans.length
      ? [plans.plans.map((plan, at) => [at ? ", " : null, link(path`/plans/${plan.id}`, h("span", { class: "name" }, plan.name || short(plan.id)))]), plans.next_page_token ? ", and more" : null]
      : h("span", { class: "muted" }, "none are made with it")],
  );
  return h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}
