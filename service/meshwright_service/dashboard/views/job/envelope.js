// The running bound of a search: what is proved of all meshes that it has left.

/**
 * [[ns, cost]]: no plan on the meshes left by then costs less. The bound of a mesh rises while it is searched and
 * counts with its last value; of the first mesh the line follows the rise. It never exceeds the best plan by then.
 * phases: of a Course; incumbents: of one problem; end: of the last phase.
 */
export function envelope({ phases, incumbents }, end) {
  const bounded = phases
    .map((own, at) => ({ ...own, until: phases[at + 1]?.from ?? end }))
    .filter((own) => own.bounds.length);
  if (!bounded.length) return [];
  const floor = [...bounded[0].bounds];
  for (const { bounds, until } of bounded.slice(1)) {
    const least = Math.min(floor.at(-1)[1], bounds.at(-1)[1]);
    if (least < floor.at(-1)[1]) floor.push([until, least]);
  }
  return lower(floor, incumbents);
}

/** The bound of a search on one problem: the highest so far, and not above the best. */
export function risen({ bounds, incumbents }) {
  const highest = [];
  for (const [ns, bound] of bounds) if (!highest.length || bound > highest.at(-1)[1]) highest.push([ns, bound]);
  return lower(highest, incumbents);
}

/** The lower of two step lines, from the start of the first. */
function lower(first, second) {
  const at = (points, ns) => points.findLast(([own]) => own <= ns)?.[1] ?? Infinity;
  const times = [...first, ...second].map(([ns]) => ns).filter((ns) => ns >= first[0]?.[0]);
  return [...new Set(times)].sort((a, b) => a - b)
    .map((ns) => [ns, Math.min(at(first, ns), at(second, ns))])
    .filter(([, cost], place, all) => place === 0 || cost !== all[place - 1][1]);
}
