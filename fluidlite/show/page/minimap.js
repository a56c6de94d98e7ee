// The whole graph, small, with a frame around what is in sight.
const MAP_W = 150,
  MAP_H = 96;
class Minimap {
  constructor(goTo) {
    this.shapes = svg("g");
    this.sight = svg("rect", { class: "sight", rx: 2 });
    this.canvas = svg("svg", { width: MAP_W, height: MAP_H, "aria-hidden": "true" }, this.shapes, this.sight);
    this.host = el("div", { className: "minimap", title: "Drag to move" }, this.canvas);
    const go = (event) => {
      const { left, top } = this.canvas.getBoundingClientRect();
      goTo((event.clientX - left - this.x) / this.k, (event.clientY - top - this.y) / this.k);
    };
    this.host.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      go(event);
      addEventListener("pointermove", go);
      addEventListener("pointerup", () => removeEventListener("pointermove", go), { once: true });
    });
  }
  draw(drawn) {
    const { boxes, width, height } = (this.drawn = drawn);
    this.k = Math.min((MAP_W - 10) / width, (MAP_H - 10) / height);
    this.x = (MAP_W - width * this.k) / 2;
    this.y = (MAP_H - height * this.k) / 2;
    this.shapes.setAttribute("transform", `translate(${this.x} ${this.y}) scale(${this.k})`);
    this.shapes.replaceChildren(
      ...boxes.map(({ x, y, w, h, open }) =>
        svg("rect", { x, y, width: w, height: h, class: open ? "open" : "shut" }),
      ),
    );
  }
  look(x, y, width, height) {
    if (!this.k) return;
    const { boxes, width: wide, height: high } = this.drawn;
    // nothing to find where all is in sight
    this.host.hidden =
      boxes.length < 3 || (x <= 1 && y <= 1 && x + width >= wide - 1 && y + height >= high - 1);
    const left = Math.max(1, this.x + x * this.k),
      top = Math.max(1, this.y + y * this.k);
    const right = Math.min(MAP_W - 1, this.x + (x + width) * this.k),
      bottom = Math.min(MAP_H - 1, this.y + (y + height) * this.k);
    Object.entries({
      x: left,
      y: top,
      width: Math.max(2, right - left),
      height: Math.max(2, bottom - top),
    }).forEach(([key, value]) => this.sight.setAttribute(key, value));
  }
}
