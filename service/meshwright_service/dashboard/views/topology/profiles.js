// By which calibration a cluster is looked at.
import { fill, h, link, path } from "../../element.js";
import { ago, moment, percent, short } from "../../units.js";
import { provenance, provenanceOf, source } from "../calibration/source.js";

const AGED_MS = 30 * 86_400_000; // chosen: drivers, firmware and neighbours change within a month

/** A choice among those of this cluster, at first the newest that is measured; chosen: called with an id, or null. */
export function profiles(known, asked, chosen) {
  const measured = known.find((own) => provenance(own) === "measured");
  const id = known.some((own) => own.id === asked) ? asked : measured?.id ?? "";
  const said = (own) => (own
    ? fill(about, source(own), " ", aged(own.created_at), provenance(own) === "anchored" ? scaled(own.summary) : offBy(own.summary.median_error), link(path`/calibrations/${own.id}`, provenance(own) === "anchored" ? "what it is anchored to" : "what it is fitted to"))
    : fill(about, h("span", { class: "tag warn" }, "not measured"), " By published measurements of such devices. ", link("/agents", "Have an agent measure it"), "."));
  const about = h("span", {});
  const select = h(
    "select", { id: "profile", onchange: () => (said(known.find((own) => own.id === select.value)), chosen(select.value || null)) },
    measured ? null : h("option", { value: "", selected: !id }, "published measurements"),
    known.map((own) => h("option", { value: own.id, selected: own.id === id }, `${provenanceOf(own)}, ${moment(own.created_at)}, ${short(own.id)}`)),
  );
  said(known.find((own) => own.id === id));
  if (!known.length) return h("p", {}, about);
  return h("div", { class: "row" }, h("label", { for: "profile" }, "Calibration"), select, about);
}

/** How long ago, and whether that is long. */
export function aged(iso) {
  const old = Date.now() - Date.parse(iso) > AGED_MS;
  return h("time", { datetime: iso, title: moment(iso), class: old ? "warn" : null }, old ? `${ago(iso)}: old by now` : ago(iso));
}

function scaled({ anchored: ratio }) {
  return `: the shares of another calibration divided by ${ratio.toFixed(3)}, `;
}

function offBy(error) {
  return error === null || error === undefined ? ", " : `, median error ${percent(error)}, `;
}
