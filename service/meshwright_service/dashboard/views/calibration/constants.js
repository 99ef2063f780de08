// Every constant of a calibration, device by device: its value, what is known of it, where it is from.
import { fill, h } from "../../element.js";
import { table } from "../../table.js";
import { percent, time } from "../../units.js";

const TIMES = /_ns$/;
const SHARES = /(^|\.)(share(_between)?|memory|eight_bit|unhidden|backward|in_switch)$/;

export function constants(own, device, chosen) {
  const shares = Object.entries(own.efficiency).map(([name, value]) => ({ name, value, spread: null, source: "of peak, where there is no curve" }));
  const rows = [...shares, { name: "link_efficiency", value: own.link_efficiency, source: "of links, where there is no curve" }];
  const curves = own.curves ?? [];
  if (!curves.length) return h("section", {}, h("h2", {}, "Constants"), drawn(rows.map((row) => ({ ...row, share: true }))));
  const start = curves.find((one) => one.device === device) ?? curves[0];
  const body = h("div", {}, one(start));
  const choice = h(
    "select", { id: "device", onchange: () => (fill(body, one(curves.find((each) => each.device === choice.value))), chosen(choice.value)) },
    curves.map((each) => h("option", { value: each.device, selected: each === start }, each.device)),
  );
  return h("section", {}, h("div", { class: "row pick" }, h("h2", {}, "Constants"), h("label", { for: "device" }, "of"), choice), body);
}

function one(curves) {
  return [
    curves.relative ? h("p", { class: "warn name" }, `Nobody measured this device: these are ${curves.relative}'s.`) : null,
    drawn([...constantsOf(curves, "")]),
  ];
}

function drawn(rows) {
  return table({
    label: "Constants", rows,
    columns: [
      { title: "Constant", value: (own) => h("code", {}, own.name), sort: (own) => own.name },
      { title: "Value", number: true, value: (own) => shown(own) },
      { title: "Spread", number: true, value: (own) => (own.spread ? `± ${percent(own.spread)}` : "–"), sort: (own) => own.spread, says: "standard deviation of its logarithm" },
      { title: "From", value: (own) => h("span", { class: "name" }, own.source), sort: (own) => own.source },
    ],
  });
}

function* constantsOf(own, prefix) {
  for (const [name, value] of Object.entries(own)) {
    if (Array.isArray(value)) for (const each of value) yield* constantsOf(each, `${prefix}${name}.${each.name}.`);
    else if (value && typeof value === "object" && "value" in value) yield { name: prefix + name, ...value };
    else if (value && typeof value === "object") yield* constantsOf(value, `${prefix}${name}.`);
  }
}

function shown({ name, value, share }) {
  if (TIMES.test(name)) return time(value);
  if (share || SHARES.test(name)) return percent(value);
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3 });
}
