// The schedule of a plan as lanes: one for every pipeline rank, with its passes, its bubble and what runs once a step.
import { PASSES, TIMES } from "../kinds.js";
import { percent } from "../units.js";

const LATER = 0.35; // chosen: by how much the last stage of a rank is fainter than its first
const BEGIN = { name: TIMES.parameter.name, colour: TIMES.parameter.colour };
const END = { name: "gradients and optimizer", colour: "--optimizer" };
const BUBBLE = { ...TIMES.bubble, hatched: true };

/** {lanes, end_us, kinds}, as lanesOf of a trace; a slice of a pass has {stage, letter, microbatch}. */
export function passLanes({ ranks, step_ns: stepNs }) {
  const kinds = new Map();
  const lanes = ranks.map((rank) => {
    const slices = [];
    const add = (start, end, look, more) => {
      if (end <= start) return;
      kinds.set(look.name, look);
      slices.push({ ts: start / 1e3, end: end / 1e3, dur: (end - start) / 1e3, label: look.name, ...look, ...more });
    };
    add(0, rank.begin_ns, BEGIN);
    rank.starts_ns.forEach((start, at) => {
      const [stage, letter, microbatch] = [rank.stage[at], rank.passes[at], rank.microbatch[at]];
      const later = rank.stages.indexOf(stage) / Math.max(1, rank.stages.length - 1);
      const [short, name] = [String(microbatch), `${stage}${letter}${microbatch}`];
      add(start, rank.ends_ns[at], PASSES[letter], { label: rank.stages.length > 1 ? name : short, short, alpha: 1 - LATER * later, pass: { stage, letter, microbatch, name } });
    });
    const last = rank.ends_ns.at(-1);
    add(last, last + rank.end_ns, END);
    rank.bubbles_ns.forEach(([start, end]) => add(start, end, BUBBLE));
    slices.sort((a, b) => a.ts - b.ts);
    const name = `rank ${rank.rank}, ${percent(rank.bubble_share)} bubble`;
    return { name, rank: null, first: false, is_main: true, number: rank.rank, slices };
  });
  const order = [...Object.values(PASSES), BEGIN, END, BUBBLE].map((own) => own.name);
  return { lanes, end_us: stepNs / 1e3, kinds: [...kinds.values()].sort((a, b) => order.indexOf(a.name) - order.indexOf(b.name)) };
}
