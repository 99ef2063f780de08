// Clusters that are known, and what was measured of them.
import { get } from "../api.js";
import { fill, h, link, path } from "../element.js";
import { empty } from "../states.js";
import { table } from "../table.js";
import { ago, bytes, count, moment, percent, short } from "../units.js";
import { provenance, provenanceOf, source } from "./calibration/source.js";

const PAGE = 200; // chosen: of a list; more come by the button

export async function show({ root, signal, go, title }) {
  title("Topologies");
  const [clusters, profiles] = await Promise.all([
    get("/v1/topologies", { signal, query: { page_size: PAGE } }),
    get("/v1/calibrations", { signal, query: { page_size: PAGE } }),
  ]);
  const newest = new Map(); // by topology; one that is measured goes before any that is not
  for (const profile of profiles.calibrations) {
    for (const id of profile.topologies) {
      if (!newest.has(id) || (provenance(profile) === "measured" && provenance(newest.get(id)) !== "measured")) newest.set(id, profile);
    }
  }
  fill(
    root,
    h("h1", {}, "Topologies"),
    clusters.topologies.length ? topologies(clusters.topologies, newest, { signal, go }) : empty("No topology yet", "A plan brings its own; or ", h("code", {}, "POST /v1/topologies"), "."),
    more(clusters),
    h("h2", {}, "Calibrations"),
    h("p", { class: "muted" }, "What clusters keep of their data sheets: fitted to samples that agents measured, or corrected by steps that training jobs took."),
    profiles.calibrations.length
      ? calibrations(profiles.calibrations, clusters.topologies, { go })
      : empty("Nothing is measured yet", "Have an ", link("/agents", "agent"), " measure a cluster, or hand in samples: ", h("code", {}, "meshwright agent --server URL"), "."),
    more(profiles),
  );
}

function topologies(rows, newest, { signal, go }) {
  return table({
    label: "Topologies", rows, signal, go,
    address: (own) => path`/topologies/${own.id}`,
    columns: [
      { title: "Name", value: (own) => link(path`/topologies/${own.id}`, h("span", { class: "clip topology", title: own.name }, own.name || short(own.id))), sort: (own) => own.name },
      { title: "Device", value: (own) => h("span", { class: "name" }, own.summary.device), sort: (own) => own.summary.device },
      { title: "Devices", number: true, value: (own) => count(own.summary.devices), sort: (own) => own.summary.devices },
      { title: "Levels", value: (own) => levels(own.summary) },
      { title: "Memory of a device", number: true, value: (own) => bytes(own.summary.memory_bytes), sort: (own) => own.summary.memory_bytes },
      { title: "Calibration", value: (own) => calibrated(newest.get(own.id)), sort: (own) => newest.get(own.id)?.created_at },
      { title: "Stored", value: (own) => h("time", { datetime: own.created_at, title: moment(own.created_at) }, ago(own.created_at)), sort: (own) => own.created_at },
    ],
  });
}

function calibrations(rows, clusters, { go }) {
  const names = new Map(clusters.map((own) => [own.id, own.name || short(own.id)]));
  return table({
    label: "Calibrations", rows, go,
    address: (own) => path`/calibrations/${own.id}`,
    columns: [
      { title: "Name", value: (own) => link(path`/calibrations/${own.id}`, h("span", { class: "name" }, own.name || short(own.id))), sort: (own) => own.name },
      { title: "From", value: (own) => source(own) },
      { title: "Median error", number: true, value: (own) => percent(own.summary.median_error), sort: (own) => own.summary.median_error },
      { title: "Of", value: (own) => own.topologies.map((id) => link(path`/topologies/${id}`, h("span", { class: "name" }, names.get(id) ?? short(id)), " ")) },
      { title: "Stored", value: (own) => h("time", { datetime: own.created_at, title: moment(own.created_at) }, ago(own.created_at)), sort: (own) => own.created_at },
    ],
  });
}

function levels(summary) {
  const groups = summary.groups ?? [summary];
  return groups.map((group) => Object.entries(group.levels).map(([name, size]) => `${count(size)} ${name}`).join(" × ")).join(" + ");
}

function calibrated(profile) {
  if (!profile) return h("span", { class: "muted" }, "data sheet alone");
  const { anchored, median_error: error } = profile.summary;
  return link(path`/calibrations/${profile.id}`, provenanceOf(profile), " ", ago(profile.created_at), anchored ? `, steps take ${anchored.toFixed(2)} times as long` : `, off by ${percent(error)}`);
}

function more(page) {
  return page.next_page_token ? h("p", { class: "muted" }, `The newest ${PAGE} are shown; the API has all.`) : null;
}
