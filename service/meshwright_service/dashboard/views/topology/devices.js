// Devices: peaks promised and kept, by dtype and by size of the product.
import { loglog } from "../../chart/loglog.js";
import { h } from "../../element.js";
import { plain } from "../../kinds.js";
import { table } from "../../table.js";
import { bytes, count, flops, percent, rate, time } from "../../units.js";

const speed = (value) => `${flops(value)}/s`;

/** from: the origin of the rates, as a tag. */
export function devices(group, kept, from) {
  const largest = Math.max(...kept.products.map((own) => own.sizes.at(-1)));
  const rows = [
    ...kept.products.map((own) => ({ name: `products, ${own.dtype}`, promised: own.promised_flops_per_s, kept: own.kept_flops_per_s, text: speed })),
    { name: "memory traffic", promised: kept.promised_memory_bytes_per_s, kept: kept.kept_memory_bytes_per_s, text: rate },
  ];
  return [
    h("h2", {}, "Devices"),
    h("div", { class: "columns" },
      h("div", {},
        table({
          label: "Devices", rows,
          columns: [
            { title: "What", value: (own) => own.name },
            { title: "Data sheet", number: true, value: (own) => own.text(own.promised) },
            { title: "Kept of it", number: true, value: (own) => own.text(own.kept) },
            { title: "Share", number: true, value: (own) => percent(own.kept / own.promised) },
            { title: "Rates from", value: from },
          ],
        }),
        h("p", { class: "muted" }, `Products are those of ${count(largest)} × ${count(largest)} matrices. Memory ${bytes(group.device.memory_bytes)}; a launch takes ${time(kept.launch_ns)}.`)),
      loglog({
        label: "Operations a second by size of the product",
        x: { name: "edge of square matrices", text: count, base: 2 },
        y: { name: "operations a second", text: speed },
        series: together(kept.products).map((own, at) => ({ name: own.names.join(", "), colour: plain(at), line: own.sizes.map((size, n) => [size, own.flops_per_s[n]]) })),
      })),
  ];
}

/** Dtypes that are as fast as each other, as one line. */
function together(products) {
  const found = new Map();
  for (const own of products) {
    const key = own.flops_per_s.map((value) => value.toPrecision(3)).join();
    if (found.has(key)) found.get(key).names.push(own.dtype);
    else found.set(key, { ...own, names: [own.dtype] });
  }
  return [...found.values()];
}
