// By which calibration a cluster is looked at.
import { fill, h, link, path } from "../../element.js";
import { ago, moment, percent, short } from "../../units.js";
import { source } from "../calibration/source.js";

const AGED_MS = 30 * 86_400_000; // chosen: drivers, firmware and neighbours change within a month

/** A choice among those measured here; chosen: called with an id. */
export function profiles(known, asked, chosen) {
  if (!known.length) {
    return h("p", {}, h("span", { class: "tag warn" }, "not measured"), " By published measurements of such devices. ", link("/agents", "Have an agent measure it"), ".");
  }
  const id = known.some((own) => own.id === asked) ? asked : known[0].id;
  const said = (own) => fill(about, source(own), " ", aged(own.created_at), offBy(own.summary.median_error), link(path`/calibrations/${own.id}`, "what it is fitted to"));
  const about = h("span", {});
  const select = h(
    "select", { id: "profile", onchange: () => (said(known.find((own) => own.id === select.value)), chosen(select.value)) },
    known.map((own) => h("option", { value: own.id, selected: own.id === id }, `${moment(own.created_at)}, ${short(own.id)}`)),
  );
  said(known.find((own) => own.id === id));
  return h("div", { class: "row" }, h("label", { for: "profile" }, "Measured"), select, about);
}

/** How long ago, and whether that is long. */
export function aged(iso) {
  const old = Date.now() - Date.parse(iso) > AGED_MS;
  return h("time", { datetime: iso, title: moment(iso), class: old ? "warn" : null }, old ? `${ago(iso)}: old by now` : ago(iso));
}

function offBy(error) {
  return error === null || error === undefined ? ", " : `, median error ${percent(error)}, `;
}
