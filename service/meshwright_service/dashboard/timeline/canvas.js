// The lanes, drawn: only what is in sight, and of slices thinner than a pixel one a pixel.
import { ticks } from "../chart/curve.js";
import { time } from "../units.js";
import { firstAfter } from "./lanes.js";

const LANE = 20;
const HEAD = 22; // of a rank's name
const AXIS = 26;
const NAMES = 190;
const LETTER = 6.2; // pixels; chosen: of a letter in a slice

export class Canvas {
  /** lanes, end_us: of lanesOf. onSelect: (slice, lane) => …, or nothing. */
  constructor(element, { lanes, end_us: end }, onSelect) {
    Object.assign(this, { element, lanes, end, onSelect, from: 0, to: end, selected: null, wanted: false });
    let y = AXIS;
    for (const lane of lanes) {
      if (lane.first) y += HEAD;
      lane.y = y;
      y += LANE;
    }
    this.height = y + 8;
    this.colours = new Map();
  }

  /** Redraws before the next frame. */
  draw() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.paint();
    });
  }

  colour(name) {
    if (!this.colours.has(name)) {
      this.element.style.color = `var(${name})`; // a canvas takes no variable, nor one colour for each theme
      this.colours.set(name, getComputedStyle(this.element).color);
    }
    return this.colours.get(name);
  }

  /** Colours are asked for anew: the theme changed. */
  repaint() {
    this.colours.clear();
    this.draw();
  }

  get span() {
    return this.to - this.from;
  }

  get wide() {
    return this.element.clientWidth - NAMES;
  }

  x(ts) {
    return NAMES + ((ts - this.from) / this.span) * this.wide;
  }

  ts(x) {
    return this.from + ((x - NAMES) / this.wide) * this.span;
  }

  zoom(factor, at = this.from + this.span / 2) {
    const span = Math.min(this.end, Math.max(this.end / 1e7, 0.01, this.span * factor));
    const share = (at - this.from) / this.span;
    this.move(at - share * span, span);
  }

  pan(share) {
    this.move(this.from + share * this.span, this.span);
  }

  move(from, span) {
    this.from = Math.min(Math.max(0, from), Math.max(0, this.end - span));
    this.to = Math.min(this.end, this.from + span);
    this.draw();
  }

  /** The slice under a place on the canvas, with its lane. */
  under(x, y) {
    const lane = this.lanes.find((own) => own.y <= y && y < own.y + LANE);
    if (!lane || x < NAMES) return null;
    const slack = this.span / this.wide;
    const at = firstAfter(lane.slices, this.ts(x) - slack);
    const slice = lane.slices[at];
    return slice && slice.ts <= this.ts(x) + slack ? { lane, slice } : null;
  }

  select(found) {
    this.selected = found;
    if (found) {
      const { slice } = found;
      if (slice.ts < this.from || slice.end > this.to) this.move(slice.ts - this.span / 2 + slice.dur / 2, Math.max(this.span, slice.dur * 1.2));
    }
    this.onSelect(found);
    this.draw();
  }

  /** The neighbour of what is selected: in time, or in the next lane at the same time. */
  step(along, across) {
    const lane = this.selected?.lane ?? this.lanes[0];
    if (!lane) return;
    if (across) {
      const next = this.lanes[this.lanes.indexOf(lane) + across];
      if (next) this.select({ lane: next, slice: next.slices[Math.min(next.slices.length - 1, firstAfter(next.slices, this.selected?.slice.ts ?? this.from))] });
      return;
    }
    const at = this.selected ? lane.slices.indexOf(this.selected.slice) + along : firstAfter(lane.slices, this.from);
    const slice = lane.slices[Math.min(lane.slices.length - 1, Math.max(0, at))];
    this.select({ lane, slice });
  }

  paint() {
    const { element } = this;
    const scale = devicePixelRatio || 1;
    const width = element.clientWidth;
    element.style.height = `${this.height}px`;
    if (element.width !== Math.round(width * scale) || element.height !== Math.round(this.height * scale)) {
      element.width = Math.round(width * scale);
      element.height = Math.round(this.height * scale);
    }
    const out = element.getContext("2d");
    out.setTransform(scale, 0, 0, scale, 0, 0);
    out.fillStyle = this.colour("--paper");
    out.fillRect(0, 0, width, this.height);
    out.font = "11px system-ui, sans-serif";
    out.textBaseline = "middle";
    this.paintGrid(out, width);
    for (const lane of this.lanes) this.paintLane(out, lane, width);
  }

  paintGrid(out, width) {
    for (const at of ticks([this.from, this.to], 8)) {
      const x = this.x(at);
      out.fillStyle = this.colour("--line");
      out.fillRect(x, AXIS - 6, 1, this.height - AXIS);
      out.fillStyle = this.colour("--ink-2");
      out.textAlign = "center";
      if (x > NAMES + 20 && x < width - 30) out.fillText(time(at * 1e3), x, 10);
    }
  }

  paintLane(out, lane, width) {
    out.textAlign = "left";
    out.fillStyle = this.colour("--ink");
    if (lane.first) out.fillText(lane.rank, 8, lane.y - HEAD / 2 + 1, width);
    out.fillStyle = this.colour("--ink-2");
    out.fillText(lane.name, 16, lane.y + LANE / 2, NAMES - 24);
    out.save();
    out.beginPath();
    out.rect(NAMES, lane.y, width - NAMES, LANE);
    out.clip();
    let drawn = -1; // the last pixel that is taken
    const { slices } = lane;
    const pixel = this.span / this.wide;
    for (let at = firstAfter(slices, this.from); at < slices.length && slices[at].ts < this.to; at += 1) {
      const slice = slices[at];
      const x = Math.max(NAMES, this.x(slice.ts));
      const right = this.x(slice.end);
      if (right < drawn + 1 && slice !== this.selected?.slice) {
        at = Math.max(at, firstAfter(slices, slice.end + pixel / 2) - 1); // all that ends within this pixel
        continue;
      }
      const left = x - drawn < 1 ? Math.max(NAMES, drawn) : x; // less than a pixel is no gap to be seen
      const wide = Math.max(1, right - left - (right - left > 4 ? 1 : 0));
      out.fillStyle = this.colour(slice.colour);
      out.fillRect(left, lane.y + 1, wide, LANE - 2);
      drawn = Math.max(drawn, left + wide);
      if (wide > 24) this.label(out, slice.name, x, lane.y, wide);
    }
    if (this.selected?.lane === lane) {
      const { slice } = this.selected;
      out.strokeStyle = this.colour("--focus");
      out.lineWidth = 2;
      out.strokeRect(this.x(slice.ts), lane.y + 1, Math.max(2, this.x(slice.end) - this.x(slice.ts)), LANE - 2);
    }
    out.restore();
  }

  label(out, name, x, y, wide) {
    const room = Math.floor((wide - 6) / LETTER);
    const text = name.length <= room ? name : room > 3 ? `…${name.slice(1 - room)}` : "";
    if (!text) return;
    out.lineWidth = 3;
    out.strokeStyle = this.colour("--paper");
    out.fillStyle = this.colour("--ink");
    out.strokeText(text, x + 3, y + LANE / 2 + 1);
    out.fillText(text, x + 3, y + LANE / 2 + 1);
  }
}

