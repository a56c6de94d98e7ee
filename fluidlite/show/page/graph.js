// The comparison as two graphs: ops from top to bottom, an edge from the op that writes a variable to those that read it.
const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, fields = {}, ...children) => {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(fields)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const NODE_W = 190, NODE_H = 40, GAP_X = 18, GAP_Y = 34, MARGIN = 26;
const layoutCache = new Map();

function blockLayout(items) {           // {nodes: [{item, x, y}], edges, width, height} of one block
  const writer = new Map(), preds = items.map(() => new Set()), rank = [];
  items.forEach((item, index) => {
    const op = D.ops[item.id];
    for (const name of slotNames(op[INPUTS])) if (writer.has(name)) preds[index].add(writer.get(name));
    rank[index] = Math.max(-1, ...[...preds[index]].map((one) => rank[one])) + 1;
    slotNames(op[OUTPUTS]).forEach((name) => writer.set(name, index));
  });
  const layers = [];
  items.forEach((_, index) => (layers[rank[index]] ??= []).push(index));
  const at = [];
  layers.forEach((layer) => {
    const wish = (index) => { const from = [...preds[index]]; return from.length ? from.reduce((sum, one) => sum + at[one], 0) / from.length : 0; };
    layer.map((index) => [wish(index), index]).sort((a, b) => a[0] - b[0] || a[1] - b[1])
      .forEach(([, index], position) => { at[index] = position - (layer.length - 1) / 2; });
  });
  const widest = Math.max(1, ...layers.map((layer) => layer.length)), width = widest * (NODE_W + GAP_X) + 2 * MARGIN;
  const nodes = items.map((item, index) => ({ item, x: width / 2 + at[index] * (NODE_W + GAP_X) - NODE_W / 2, y: MARGIN + 12 + rank[index] * (NODE_H + GAP_Y) }));
  return { nodes, edges: preds.flatMap((from, to) => [...from].map((one) => [one, to])), width, height: MARGIN * 2 + layers.length * (NODE_H + GAP_Y) };
}

function layout(program) {              // blocks side by side, in lines of about the height of the tallest
  if (layoutCache.has(program)) return layoutCache.get(program);
  const ops = flat(program), blocks = D.programs[program].map(([block]) => ({ block, ...blockLayout(ops.filter((item) => item.block === block)) }));
  const limit = Math.max(1000, Math.sqrt(blocks.reduce((sum, one) => sum + one.width * one.height, 0)) * 1.4);
  let x = 0, y = 0, high = 0, wide = 0;
  for (const one of blocks) {
    if (x && x + one.width > limit) { x = 0; y += high + 30; high = 0; }
    Object.assign(one, { x, y });
    x += one.width + 30;
    high = Math.max(high, one.height);
    wide = Math.max(wide, x - 30);
  }
  const found = { blocks, width: wide, height: y + high };
  layoutCache.set(program, found);
  return found;
}

function nodeOf({ item, x, y }, kinds, owner) {
  const op = D.ops[item.id], out = slotNames(op[OUTPUTS])[0] ?? slotNames(op[INPUTS])[0], sub = out === undefined ? "" : nameOf(out, owner);
  const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
  const marks = [kinds?.[item.number] ?? "", state.hits.has(item.id) ? "hit" : "", state.param && touchedBy(state.param).has(item.id) ? "touch" : ""];
  const node = svg("g", { class: `node ${marks.join(" ")}`, transform: `translate(${x} ${y})`, "data-number": item.number },
    svg("rect", { width: NODE_W, height: NODE_H, rx: 6 }), svg("rect", { width: 4, height: NODE_H, rx: 2, style: `fill:var(--${op[CATEGORY]});stroke:none` }),
    svg("text", { x: 13, y: 17 }, cut(op[TYPE], 23)), svg("text", { x: 13, y: 32, class: "sub" }, cut(sub, 27)));
  node.append(svg("title", {}, `${op[TYPE]}\n${ioText(op, owner)}`));
  node.addEventListener("click", () => { state.at = { side: owner === ORIGINAL ? "left" : "right", number: item.number }; showOp(item, owner, kinds?.[item.number] ?? ""); });
  return node;
}

class Graph {
  constructor(owner, program, kinds) {
    this.plan = layout(program);
    this.owner = owner;
    this.scene = svg("g");
    this.picture = svg("svg", { role: "img", "aria-label": `graph of ${owner.name}` }, this.scene);
    for (const block of this.plan.blocks) this.scene.append(this.drawn(block, kinds));
    const button = (text, title, act) => el("button", { title, onclick: act }, text);
    this.node = el("div", { className: "graph" }, this.picture, el("div", { className: "tools" }, button("−", "Smaller (-)", () => this.zoom(0.7)),
      button("+", "Larger (+)", () => this.zoom(1.4)), button("fit", "Whole graph (0)", () => this.fit())));
    this.picture.addEventListener("wheel", (event) => { event.preventDefault(); this.zoom(Math.exp(-event.deltaY * 0.0016), event.offsetX, event.offsetY); }, { passive: false });
    this.picture.addEventListener("pointerdown", (event) => { this.grip = [event.clientX - this.x, event.clientY - this.y]; });
    this.picture.addEventListener("pointermove", (event) => { if (event.buttons & 1 && this.grip) this.move(event.clientX - this.grip[0], event.clientY - this.grip[1], this.scale); });
    this.picture.addEventListener("pointerup", () => { this.grip = null; });
  }
  drawn(block, kinds) {
    const group = svg("g", { transform: `translate(${block.x} ${block.y})` }, svg("rect", { class: "frame", width: block.width, height: block.height, rx: 8 }),
      svg("text", { class: "frame-title", x: 12, y: 20 }, `block ${block.block}`));
    for (const [from, to] of block.edges) {
      const a = block.nodes[from], b = block.nodes[to], x1 = a.x + NODE_W / 2, y1 = a.y + NODE_H, x2 = b.x + NODE_W / 2, bend = Math.min(60, (b.y - y1) / 2);
      group.append(svg("path", { class: "edge", d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${b.y - bend} ${x2} ${b.y}` }));
    }
    group.append(...block.nodes.map((node) => nodeOf(node, kinds, this.owner)));
    return group;
  }
  move(x, y, scale) {
    Object.assign(this, { x, y, scale });
    this.scene.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.picture.classList.toggle("far", scale < 0.3);
  }
  zoom(by, x = this.node.clientWidth / 2, y = this.node.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.02, this.scale * by)), real = scale / this.scale;
    this.move(x - (x - this.x) * real, y - (y - this.y) * real, scale);
  }
  fit() {
    const scale = Math.min(1, this.node.clientWidth / this.plan.width, this.node.clientHeight / this.plan.height);
    this.move((this.node.clientWidth - this.plan.width * scale) / 2, 8, scale);
  }
  start() {                             // readable from the top, the whole only where it fits
    const scale = Math.max(0.62, Math.min(1, this.node.clientWidth / this.plan.width, this.node.clientHeight / this.plan.height));
    const first = this.plan.blocks[0];
    this.move(this.plan.width * scale < this.node.clientWidth ? (this.node.clientWidth - this.plan.width * scale) / 2
      : Math.min(8, (this.node.clientWidth - first.width * scale) / 2), 8, scale);
  }
  centre(number) {
    for (const block of this.plan.blocks) {
      const found = block.nodes.find((one) => one.item.number === number);
      if (!found) continue;
      this.move(this.node.clientWidth / 2 - (block.x + found.x + NODE_W / 2) * this.scale, this.node.clientHeight / 2 - (block.y + found.y) * this.scale, this.scale);
      this.scene.querySelectorAll(".at").forEach((one) => one.classList.remove("at"));
      this.scene.querySelector(`[data-number="${number}"]`)?.classList.add("at");
    }
  }
}

let graphs = [];
function refreshGraphs() {
  const found = rowsNow();
  graphs = [new Graph(ORIGINAL, ORIGINAL[state.which], found?.oldKind), ...(isJob ? [new Graph(role(), role()[state.which], found.newKind)] : [])];
  byId("graphs").replaceChildren(...graphs.map((graph) => graph.node));
  graphs.forEach((graph) => graph.start());
  if (state.at) graphs[state.at.side === "left" || !isJob ? 0 : 1].centre(state.at.number);
}
