// Names of presets: a device, and how many of it in how many nodes. The service reads them; this takes them apart for controls.

const NAME = /^([a-z0-9-]+)-([1-9]\d*(?:x[1-9]\d*)*)$/;

/** {preset, nodes, inside} of a name; null where it is none of these presets. inside: devices of a node, or the torus of a slice. */
export function readPreset(text, presets) {
  const [, device, sizes] = NAME.exec(text.trim().toLowerCase()) ?? [];
  const preset = presets.find(({ name }) => name === device);
  if (!preset) return null;
  const all = sizes.split("x");
  if (!isPod(preset)) return all.length === 2 ? { preset, nodes: all[0], inside: all[1] } : null;
  const isSeveral = all.length > preset.largest.length;
  return { preset, nodes: isSeveral ? all[0] : "1", inside: (isSeveral ? all.slice(1) : all).join("x") };
}

export function writePreset({ preset, nodes, inside }) {
  if (!isPod(preset)) return `${preset.name}-${nodes}x${inside}`;
  return Number(nodes) > 1 ? `${preset.name}-${nodes}x${inside}` : `${preset.name}-${inside}`;
}

/** Whether the devices are a torus, whose sizes are several. */
export function isPod({ largest }) {
  return largest.length > 1;
}
