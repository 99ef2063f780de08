// The lanes of a step on a canvas as large as its window: only what is in sight is drawn; times and names stay in sight.
import { ticks } from "../chart/curve.js";
import { timeLabels } from "../chart/tick_labels.js";
import { firstAfter } from "./lanes.js";
import { drawSlices, Paint } from "./slices.js";

const LANE = 20;
const HEAD = 22; // of a rank's name
const AXIS = 26;
const NAMES = 190;
const SHARE = 0.3; // of a narrow window for names; chosen
const WINDOW = 0.75; // of the window's height; chosen: the rest of the page stays in reach
const TICK = 130; // pixels; chosen: the longest label of a tick with a gap

export class Canvas {
  /** lanes, end_us: of lanesOf; scroller: the element that scrolls over the lanes, with the canvas in it. */
  constructor(element, scroller, { lanes, end_us: end }, { onSelect, onDraw }) {
    Object.assign(this, { element, scroller, lanes, end, onSelect, onDraw, from: 0, to: end, selected: null, wanted: false });
    let y = AXIS;
    for (const lane of lanes) {
      if (lane.first) y += HEAD;
      lane.y = y;
      y += LANE;
    }
    this.height = y + 8;
    this.paint = new Paint(element);
  }

  /** Redraws before the next frame. */
  draw() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      if (!this.element.clientWidth) return; // not on the page yet
      this.redraw();
      this.onDraw();
    });
  }

  /** Colours are read anew: the theme changed. */
  repaint() {
    this.paint.clear();
    this.draw();
  }

  get span() {
    return this.to - this.from;
  }

  get names() {
    return Math.min(NAMES, this.element.clientWidth * SHARE);
  }

  get wide() {
    return this.element.clientWidth - this.names;
  }

  /** Pixels of the lanes that are in sight. */
  get sight() {
    return Math.min(this.height, Math.max(AXIS + HEAD + 4 * LANE, Math.round(innerHeight * WINDOW)));
  }

  get view() {
    return { from: this.from, to: this.to, left: this.names, wide: this.wide };
  }

  x(ts) {
    return this.names + ((ts - this.from) / this.span) * this.wide;
  }

  ts(x) {
    return this.from + ((x - this.names) / this.wide) * this.span;
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
    const down = y + this.scroller.scrollTop;
    const lane = this.lanes.find((own) => own.y <= down && down < own.y + LANE);
    if (!lane || x < this.names || y < AXIS) return null;
    const slack = this.span / this.wide;
    const at = firstAfter(lane.slices, this.ts(x) - slack);
    const slice = lane.slices[at];
    return slice && slice.ts <= this.ts(x) + slack ? { lane, slice } : null;
  }

  select(found) {
    this.selected = found;
    if (found) {
      const { slice, lane } = found;
      if (slice.ts < this.from || slice.end > this.to) this.move(slice.ts - this.span / 2 + slice.dur / 2, Math.max(this.span, slice.dur * 1.2));
      const top = this.scroller.scrollTop;
      if (lane.y - HEAD < top + AXIS || lane.y + LANE > top + this.sight) this.scroller.scrollTop = lane.y - this.sight / 2;
    }
    this.onSelect(found);
    this.draw();
  }

  /** To a slice with some time around it, selected. */
  show(found) {
    this.move(found.slice.ts - found.slice.dur, found.slice.dur * 3);
    this.select(found);
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

  redraw() {
    const { sight } = this;
    const width = this.element.clientWidth;
    this.element.nextElementSibling.style.height = `${this.height - sight}px`;
    this.scroller.style.maxHeight = `${sight}px`;
    const out = sized(this.element, sight);
    out.fillStyle = this.paint.colour("--paper");
    out.fillRect(0, 0, width, sight);
    out.font = "11px system-ui, sans-serif";
    out.textBaseline = "middle";
    const marks = ticks([this.from, this.to], Math.min(8, Math.max(1, this.wide / TICK)));
    out.fillStyle = this.paint.colour("--line");
    for (const at of marks) out.fillRect(this.x(at), AXIS - 6, 1, sight - AXIS);
    const top = this.scroller.scrollTop;
    for (const lane of this.lanes) {
      if (lane.y + LANE >= top + AXIS && lane.y - HEAD <= top + sight) this.drawLane(out, lane, lane.y - top, width);
    }
    this.drawHead(out, marks, top, width);
  }

  /** Times, and the name of the rank whose lanes are at the top. */
  drawHead(out, marks, top, width) {
    out.fillStyle = this.paint.colour("--paper");
    out.fillRect(0, 0, width, AXIS - 6);
    const lane = this.lanes.find((own) => own.y >= top + AXIS);
    if (lane?.rank && !lane.first) {
      out.fillRect(0, 0, width, AXIS + HEAD - 4);
      this.drawRank(out, lane, AXIS + HEAD, width);
    }
    out.textAlign = "center";
    out.fillStyle = this.paint.colour("--ink-2");
    const texts = timeLabels(marks.map((at) => at * 1e3));
    marks.forEach((at, number) => {
      const x = this.x(at);
      const half = out.measureText(texts[number]).width / 2;
      if (x - half > this.names && x + half < width) out.fillText(texts[number], x, 10);
    });
    out.textAlign = "left";
  }

  drawRank(out, lane, y, width) {
    out.textAlign = "left";
    out.fillStyle = this.paint.colour("--ink");
    out.fillText(lane.rank, 8, y - HEAD / 2 + 1, width);
  }

  drawLane(out, lane, y, width) {
    if (lane.first) this.drawRank(out, lane, y, width);
    out.textAlign = "left";
    out.fillStyle = this.paint.colour("--ink-2");
    out.fillText(lane.name, 16, y + LANE / 2, this.names - 24);
    out.save();
    out.beginPath();
    out.rect(this.names, y, width - this.names, LANE);
    out.clip();
    const selected = this.selected?.lane === lane ? this.selected.slice : null;
    drawSlices(out, this.paint, lane.slices, { view: this.view, y: y + 1, height: LANE - 2, selected, labels: true });
    if (selected) {
      out.strokeStyle = this.paint.colour("--focus");
      out.lineWidth = 2;
      out.strokeRect(this.x(selected.ts), y + 1, Math.max(2, this.x(selected.end) - this.x(selected.ts)), LANE - 2);
    }
    out.restore();
  }
}

/** The drawing context of a canvas that is as wide as its place, and so high, on any screen. */
export function sized(element, height) {
  const scale = devicePixelRatio || 1;
  const width = element.clientWidth;
  element.style.height = `${height}px`;
  if (element.width !== Math.round(width * scale) || element.height !== Math.round(height * scale)) {
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
  }
  const out = element.getContext("2d");
  out.setTransform(scale, 0, 0, scale, 0, 0);
  return out;
}
