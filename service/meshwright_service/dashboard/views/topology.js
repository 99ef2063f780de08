// One cluster: its levels as nested boxes, and what devices and links keep of what they promise.
import { get } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { prose } from "../prose.js";
import { failed, loading } from "../states.js";
import { bytes, count, linkRate, percent, short } from "../units.js";
import { origin } from "./calibration/source.js";
import { boxes } from "./topology/boxes.js";
import { devices } from "./topology/devices.js";
import { links } from "./topology/links.js";
import { observations } from "./topology/observations.js";
import { profiles } from "./topology/profiles.js";

export async function show({ root, params, query, signal, keep, title }) {
  const id = params.topology;
  const [own, known, plans, observed] = await Promise.all([
    get(path`/v1/topologies/${id}`, { signal }),
    get("/v1/calibrations", { signal, query: { topology: id, page_size: 200 } }),
    get("/v1/plans", { signal, query: { topology: id, page_size: 5 } }),
    get(path`/v1/topologies/${id}/observations`, { signal }),
  ]);
  title(own.name || short(id));
  const groups = [own, ...(own.beside ?? [])];
  const rates = h("div", {}, loading("what it keeps"));
  const choice = profiles(known.calibrations, query.get("calibration"), (calibration) => {
    keep({ calibration });
    return drawn(calibration);
  });
  fill(
    root,
    h("h1", {}, "Topology ", h("span", { class: "name" }, own.name || short(id))),
    facts(own, groups, plans, id),
    choice,
    rates,
    observations(observed),
    h("h2", {}, "Where the data sheets' numbers are from"),
    [...new Set([own.source, ...groups.map((group) => group.device.source)])].filter(Boolean).map(prose),
    h("p", { class: "muted" }, "Document ", link(path`/v1/topologies/${id}`, h("code", {}, short(id)))),
  );
  await drawn(query.get("calibration"));

  async function drawn(calibration) {
    try {
      const kept = await get(path`/v1/topologies/${id}/rates`, { signal, query: { calibration } });
      const from = origin(known.calibrations.find((entry) => entry.id === kept.calibration));
      fill(rates, groups.map((group, at) => section(group, kept.groups[at], { isMixed: groups.length > 1, uplink: own.uplink, from })));
    } catch (problem) {
      if (!signal.aborted) fill(rates, failed(problem, () => drawn(calibration)));
    }
  }
}

/** from: the origin of the rates of the calibration, as text. */
function section(group, kept, { isMixed, uplink, from }) {
  return [
    isMixed ? h("h2", {}, h("span", { class: "name" }, kept.device), ` × ${count(kept.devices)}`) : null,
    isMixed ? h("p", { class: "muted" }, `Reaches other groups by ${uplinked(group.uplink ?? uplink)}.`) : null,
    kept.relative ? h("p", { class: "name warn" }, `${kept.device} has no curves of its own: these are ${kept.relative}'s.`) : null,
    boxes(group, kept),
    links(kept, from),
    devices(group, kept, from),
  ];
}

function facts(own, groups, plans, id) {
  const total = groups.reduce((all, group) => all + group.levels.reduce((one, level) => one * level.size, 1), 0);
  const memory = [...new Set(groups.map((group) => bytes(group.device.memory_bytes)))].join(" and ");
  return h(
    "dl", { class: "facts" },
    h("dt", {}, "Devices"), h("dd", {}, count(total), " × ", groups.map((group, at) => [at ? " and " : null, h("span", { class: "name" }, group.device.name)])),
    h("dt", {}, "Memory of a device"), h("dd", {}, memory),
    own.host ? [h("dt", {}, "Host"), h("dd", {}, h("span", { class: "name" }, own.host.name), `, ${bytes(own.host.memory_bytes)} and ${linkRate(own.host.link)} a device`)] : null,
    h("dt", {}, "Plans"),
    h("dd", {}, plans.plans.length
      ? [plans.plans.map((plan, at) => [at ? ", " : null, link(path`/plans/${plan.id}`, h("span", { class: "name" }, plan.name || short(plan.id)))]), plans.next_page_token ? [", ", link(`/?topology=${encodeURIComponent(id)}`, "more")] : null]
      : h("span", { class: "muted" }, "none yet")),
  );
}

function uplinked(uplink) {
  return uplink ? `${uplink.kind}, ${linkRate(uplink)}` : percent(null);
}
