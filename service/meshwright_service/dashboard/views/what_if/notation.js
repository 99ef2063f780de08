// Pins as people type them, the same as for `meshwright plan --pin`.

const TENSORS = /^\(\s*((?:(?:\([^()]*\)|_)\s*(?:,\s*|(?=\))))*)\)$/;
const NAME = /^[\p{ID_Start}_]\p{ID_Continue}*$/u;

/** The pin in `op-glob:strategy`; raises Error with what is wrong. */
export function readPin(text) {
  const colon = text.lastIndexOf(":");
  const [op, said] = [text.slice(0, colon).trim(), text.slice(colon + 1).trim()];
  if (colon < 0 || !op) throw new Error("there is no ':' between the ops and their strategy");
  if (said === "data_parallel") return { op, data_parallel: true };
  if (said.startsWith("(") || said.startsWith("->")) {
    const [given, made] = said.split("->").map((part) => part.trim());
    return { op, ...(given ? { inputs: tensors(given) } : {}), ...(made ? { outputs: tensors(made) } : {}) };
  }
  const strategy = {};
  for (const part of said.split(",").map((own) => own.trim()).filter(Boolean)) {
    const [factor, axes, rest] = part.split("=").map((own) => own.trim());
    if (axes === undefined || rest !== undefined || !NAME.test(factor)) throw new Error(`${part} is not factor=axis`);
    if (factor in strategy) throw new Error(`the factor ${factor} is given twice`);
    strategy[factor] = axesOf(axes);
  }
  return { op, strategy };
}

export function writePin({ op, strategy, inputs, outputs, data_parallel: isDataParallel }) {
  if (isDataParallel) return `${op}:data_parallel`;
  if (strategy) return `${op}:${Object.entries(strategy).map(([factor, axes]) => `${factor}=${axes.join("+")}`).join(",")}`;
  return `${op}:${inputs ? written(inputs) : ""}${outputs ? `->${written(outputs)}` : ""}`;
}

function tensors(text) {
  const whole = TENSORS.exec(text);
  if (!whole) throw new Error(`${text} is not a list of cuts, one for every tensor`);
  return [...whole[1].matchAll(/\(([^()]*)\)|_/g)].map(([all, inner]) => (all === "_" ? null : cuts(inner)));
}

function cuts(text) {
  const dims = text.split(",").map((own) => own.trim());
  if (dims.at(-1) === "") dims.pop();
  return dims.map((dim) => {
    if (/^[1-9]\d*$/.test(dim)) return Number(dim);
    const axes = axesOf(dim);
    if (!axes.length || !axes.every((axis) => NAME.test(axis))) throw new Error(`${dim || "nothing"} is neither axes nor a number of parts`);
    return axes;
  });
}

function axesOf(text) {
  return text.split("+").map((axis) => axis.trim()).filter(Boolean);
}

function written(all) {
  return `(${all.map((own) => (own === null ? "_" : shown(own))).join(",")})`;
}

function shown(dims) {
  const said = dims.map((cut) => (typeof cut === "number" ? String(cut) : cut.join("+") || "1"));
  return `(${said.join(",")}${said.length === 1 ? "," : ""})`;
}
