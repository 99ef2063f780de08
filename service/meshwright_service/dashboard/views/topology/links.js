// Links: promised and kept, and the bandwidth of every kind of collective by message size.
import { loglog } from "../../chart/loglog.js";
import { h } from "../../element.js";
import { COLLECTIVES, named } from "../../kinds.js";
import { table } from "../../table.js";
import { bytes, count, percent, rate, time } from "../../units.js";

/** from: the origin of the rates, as a tag. */
export function links(kept, from) {
  const crossed = kept.levels.filter((own) => own.collectives?.length);
  return [
    h("h2", {}, "Links"),
    table({
      label: "Links", rows: kept.levels,
      columns: [
        { title: "Level", value: (own) => h("span", { class: "name" }, own.level) },
        { title: "Units", number: true, value: (own) => count(own.size) },
        { title: "Link", value: (own) => h("span", { class: "name" }, own.link) },
        { title: "Data sheet, a device", number: true, value: (own) => rate(own.promised_bytes_per_s) },
        { title: "Kept of it", number: true, value: (own) => rate(own.kept_bytes_per_s), says: "by a gather of 1 GiB over all units of the level" },
        { title: "Share", number: true, value: (own) => (own.kept_bytes_per_s ? percent(own.kept_bytes_per_s / own.promised_bytes_per_s) : "–") },
        { title: "Rates from", value: (own) => (own.kept_bytes_per_s ? from() : "–") },
        { title: "Latency, data sheet", number: true, value: (own) => time(own.promised_latency_ns) },
        { title: "Smallest gather", number: true, value: (own) => time(own.start_ns), says: "of 1 KiB over all units of the level" },
      ],
    }),
    h("div", { class: "columns" }, crossed.map((own) => h("section", {}, h("h3", {}, "Over ", h("span", { class: "name" }, `${count(own.size)} × ${own.level}`)), passed(own)))),
  ];
}

function passed(own) {
  return loglog({
    label: `Bandwidth by message size over ${own.level}`,
    x: { name: "payload of a device", text: bytes, base: 2 },
    y: { name: "through a device's port", text: rate },
    levels: [{ y: own.promised_bytes_per_s, name: `data sheet ${rate(own.promised_bytes_per_s)}`, colour: "--ink-2" }],
    series: own.collectives.map((one) => ({
      name: named(one.kind),
      colour: COLLECTIVES[one.kind].colour,
      line: one.payload_bytes.map((payload, at) => [payload, one.bytes_per_s[at]]),
    })),
  });
}
