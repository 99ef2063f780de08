// Slices of a lane on a canvas: of those thinner than a pixel one a pixel, hatched or faint where they say so.
import { firstAfter } from "./lanes.js";

const LETTER = 6.2; // pixels; chosen: of a letter in a slice
const THIN = 2; // pixels; chosen: a hatch that is narrower has no lines to be seen
const TILE = 6; // pixels; chosen: between two lines of a hatch

/** Paint of the palette's colours; a canvas takes no variable. */
export class Paint {
  constructor(element) {
    Object.assign(this, { element, colours: new Map(), hatches: new Map() });
  }

  /** Colours are read anew: the theme changed. */
  clear() {
    this.colours.clear();
    this.hatches.clear();
  }

  colour(name) {
    if (!this.colours.has(name)) {
      this.element.style.color = `var(${name})`;
      this.colours.set(name, getComputedStyle(this.element).color);
    }
    return this.colours.get(name);
  }

  hatch(out, name) {
    if (!this.hatches.has(name)) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = TILE;
      const lines = tile.getContext("2d");
      lines.strokeStyle = this.colour(name);
      lines.lineWidth = 1.5;
      lines.beginPath();
      for (const shift of [-TILE, 0, TILE]) {
        lines.moveTo(shift - 1, TILE + 1);
        lines.lineTo(shift + TILE + 1, -1);
      }
      lines.stroke();
      this.hatches.set(name, out.createPattern(tile, "repeat"));
    }
    return this.hatches.get(name);
  }
}

/**
 * slices: {ts, end, colour, label, short, hatched, alpha} in order of time; view: {from, to: times, left, wide: pixels};
 * selected: the slice that is drawn in any case; labels: whether slices have their text.
 */
export function drawSlices(out, paint, slices, { view, y, height, selected, labels }) {
  const { from, to, left: edge, wide: room } = view;
  const pixel = (to - from) / room;
  const place = (ts) => edge + (ts - from) / pixel;
  let drawn = -1; // the last pixel that is taken
  for (let at = firstAfter(slices, from); at < slices.length && slices[at].ts < to; at += 1) {
    const slice = slices[at];
    const x = Math.max(edge, place(slice.ts));
    const right = Math.min(edge + room, place(slice.end));
    if (right < drawn + 1 && slice !== selected) {
      at = Math.max(at, firstAfter(slices, slice.end + pixel / 2) - 1); // all that ends within this pixel
      continue;
    }
    if (slice.hatched && right - x < THIN) continue; // what waits in between work is not all of a pixel
    const left = x - drawn < 1 ? Math.max(edge, drawn) : x; // less than a pixel is no gap to be seen
    const wide = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
    out.globalAlpha = slice.alpha ?? 1;
    out.fillStyle = slice.hatched ? paint.hatch(out, slice.colour) : paint.colour(slice.colour);
    out.fillRect(left, y, wide, height);
    out.globalAlpha = 1;
    drawn = Math.max(drawn, left + wide);
    if (labels && !slice.hatched) write(out, paint, slice, left, y + height / 2, wide);
  }
}

function write(out, paint, { label, short }, x, y, wide) {
  const room = Math.floor((wide - 4) / LETTER);
  const text = label.length <= room ? label : short ? (short.length <= room ? short : "") : room > 3 ? `…${label.slice(1 - room)}` : "";
  if (!text) return;
  out.lineWidth = 3;
  out.strokeStyle = paint.colour("--paper");
  out.fillStyle = paint.colour("--ink");
  out.strokeText(text, x + 3, y + 1);
  out.fillText(text, x + 3, y + 1);
}
