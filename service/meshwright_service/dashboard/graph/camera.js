// Where one looks at the drawing: a scale and a shift, held within reason.

const LEAST = 0.05;
const MOST = 3;

export class Camera {
  /** moved: called when it has moved, once a frame at most. */
  constructor(moved) {
    Object.assign(this, { x: 0, y: 0, scale: 1, moved, wanted: false });
  }

  told() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.moved();
    });
  }

  /** In pixels of the screen. */
  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.told();
  }

  /** About a place on the screen, which stays where it is. */
  zoom(factor, at) {
    const scale = Math.min(MOST, Math.max(LEAST, this.scale * factor));
    this.x = at.x - ((at.x - this.x) * scale) / this.scale;
    this.y = at.y - ((at.y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.told();
  }

  /** All of a drawing in a window, at most slightly enlarged. */
  fit(drawing, window) {
    this.scale = Math.min(1.25, this.wide(drawing, window), (window.height - 32) / drawing.height);
    this.place(drawing, window);
  }

  /** All of a drawing, or the top of one that is too long to be read. */
  begin(drawing, window) {
    this.fit(drawing, window);
    if (this.scale >= 0.45) return;
    this.scale = Math.max(LEAST, Math.min(0.8, this.wide(drawing, window)));
    this.place(drawing, window);
  }

  wide(drawing, window) {
    return (window.width - 32) / drawing.width;
  }

  place(drawing, window) {
    this.x = Math.max(16, (window.width - drawing.width * this.scale) / 2);
    this.y = 16;
    this.told();
  }

  /** A box into the middle. */
  centre(box, window) {
    if (this.scale < 0.6) this.scale = 0.9;
    this.x = window.width / 2 - (box.x + box.width / 2) * this.scale;
    this.y = window.height / 2 - (box.y + Math.min(box.height, window.height / 2) / 2) * this.scale;
    this.told();
  }

  /** What of the drawing is in a window, and as much around it. */
  sight(window) {
    const { width, height } = window;
    return { left: (-this.x - width / 2) / this.scale, top: (-this.y - height / 2) / this.scale, right: (-this.x + 1.5 * width) / this.scale, bottom: (-this.y + 1.5 * height) / this.scale };
  }

  get transform() {
    return `translate(${this.x.toFixed(1)} ${this.y.toFixed(1)}) scale(${this.scale.toFixed(4)})`;
  }
}
