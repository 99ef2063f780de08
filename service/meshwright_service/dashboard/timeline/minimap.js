// The whole step in little, one row a rank, with the part that is in sight; a click or a drag moves it there.
import { h } from "../element.js";
import { sized } from "./canvas.js";
import { drawSlices, Paint } from "./slices.js";

const LEAST = 24; // pixels; chosen
const MOST = 72;
const ROW = 8;

export class Minimap {
  /** lanes: one a rank; canvas: what it is the map of. */
  constructor(canvas, lanes, signal, moved) {
    this.element = h("canvas", { class: "minimap", "aria-hidden": "true" });
    Object.assign(this, { canvas, lanes, paint: new Paint(this.element), whole: null, held: false });
    const listen = (type, does) => this.element.addEventListener(type, does, { signal });
    listen("pointerdown", (event) => {
      this.held = true;
      this.element.setPointerCapture(event.pointerId);
      this.centre(event.offsetX);
    });
    listen("pointermove", (event) => this.held && this.centre(event.offsetX));
    listen("pointerup", () => {
      this.held = false;
      moved();
    });
  }

  repaint() {
    this.paint.clear();
    this.whole = null;
  }

  centre(x) {
    const { canvas } = this;
    const at = ((x - canvas.names) / canvas.wide) * canvas.end;
    canvas.move(at - canvas.span / 2, canvas.span);
  }

  draw() {
    const { canvas, element } = this;
    const height = Math.min(MOST, Math.max(LEAST, this.lanes.length * ROW));
    const out = sized(element, height);
    const left = canvas.names;
    if (this.whole?.width !== element.width || this.whole?.height !== element.height) this.drawWhole(out, height);
    out.setTransform(1, 0, 0, 1, 0, 0);
    out.drawImage(this.whole, 0, 0);
    const scale = devicePixelRatio || 1;
    out.setTransform(scale, 0, 0, scale, 0, 0);
    const x = left + (canvas.from / canvas.end) * canvas.wide;
    const wide = Math.max(3, (canvas.span / canvas.end) * canvas.wide);
    out.globalAlpha = 0.65;
    out.fillStyle = this.paint.colour("--paper");
    out.fillRect(left, 0, x - left, height);
    out.fillRect(x + wide, 0, canvas.wide, height);
    out.globalAlpha = 1;
    out.strokeStyle = this.paint.colour("--focus");
    out.lineWidth = 2;
    out.strokeRect(x + 1, 1, Math.max(1, wide - 2), height - 2);
  }

  drawWhole(out, height) {
    const { canvas, element, lanes } = this;
    out.fillStyle = this.paint.colour("--paper");
    out.fillRect(0, 0, element.clientWidth, height);
    out.fillStyle = this.paint.colour("--ink-2");
    out.font = "11px system-ui, sans-serif";
    out.textBaseline = "middle";
    out.fillText("whole step", 8, height / 2, canvas.names - 12);
    const view = { from: 0, to: canvas.end, left: canvas.names, wide: canvas.wide };
    const row = height / lanes.length;
    lanes.forEach((lane, at) => drawSlices(out, this.paint, lane.slices, { view, y: at * row, height: Math.max(0.5, row - (row > 3 ? 1 : 0)) }));
    this.whole = document.createElement("canvas");
    this.whole.width = element.width;
    this.whole.height = element.height;
    this.whole.getContext("2d").drawImage(element, 0, 0);
  }
}
