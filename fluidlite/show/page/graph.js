// A folded graph in a pane: drawn, moved, and walked through by keyboard.
const SVG = "http://www.w3.org/2000/svg";
const svg = (tag, fields = {}, ...children) => {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(fields)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};
const tool = (text, title, act) => el("button", { title, "aria-label": title, onclick: act }, text);
const saveTools = (drawing, what) => [
  tool("SVG", "Save what is drawn as SVG", () => saveSvg(drawing, what())),
  tool("PNG", "Save what is drawn as PNG", () => savePng(drawing, what())),
];
const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const CLOSEST = 3,
  MARGIN = 22,
  TOOLS = 34; // of the height, below a graph that is shown as a whole

class GraphPane {
  constructor(side) {
    this.side = side;
    this.view = { x: 0, y: 0, k: 1 };
    this.scene = svg("g");
    this.canvas = svg(
      "svg",
      { role: "group", "aria-label": "Graph: arrow keys and page keys move, Enter opens, Backspace closes" },
      arrows(side),
      this.scene,
    );
    this.map = new Minimap((x, y) => {
      this.centre(x, y);
      beside(this);
    });
    this.host = el("div", { className: "graph" });
    this.host.append(
      this.canvas,
      this.map.host,
      el(
        "div",
        { className: "tools" },
        tool("−", "Smaller (-)", () => guide(this, () => this.zoom(0.75))),
        tool("+", "Larger (+)", () => guide(this, () => this.zoom(1.33))),
        tool("fit", "Show all (0)", () => fitAll(true)),
        ...saveTools(this, () => (isJob ? this.owner.name : "")),
      ),
    );
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.drag(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focusin", (event) => {
      const node = event.target.closest("[data-id]");
      if (node) this.focusOn(node.dataset.id, false);
    });
  }
  get owner() {
    return ownerOf(this.side);
  }
  get tree() {
    return folded(this.owner[state.which]);
  }

  // ------------------------------------------------------------ drawing
  render() {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (!width || !height) return;
    this.scene.replaceChildren();
    this.boxOf = new Map();
    this.drawn = null;
    this.map.host.hidden = true;
    if (!this.tree.phases.size) return; // the list beside it says that there are no ops
    this.kinds = isJob ? compare(role(), state.which)[this.side === "left" ? "oldKind" : "newKind"] : null;
    this.drawn = picture(this.tree, width, height, state.params !== false);
    this.boxOf = new Map(this.drawn.boxes.map((box) => [box.node.id, box]));
    const open = this.drawn.boxes.filter((box) => box.open),
      closed = this.drawn.boxes.filter((box) => !box.open);
    this.scene.replaceChildren(
      ...open.map((box) => this.frame(box)),
      ...this.drawn.edges.map((edge) => this.edge(edge)),
      ...this.labels(),
      ...closed.map((box) => this.box(box)),
    );
    if (!this.boxOf.has(this.focused)) this.focused = closed[0]?.node.id;
    this.mark();
    this.map.draw(this.drawn);
    this.apply();
  }
  classes(node) {
    const kinds = this.kinds
      ? [...new Set(node.ops.map((number) => this.kinds[number]).filter((kind) => kind && kind !== "kept"))]
      : [];
    return kinds.length &&
      (node.kind === OP_KIND || node.ops.every((number) => this.kinds[number] === kinds[0]))
      ? kinds[0]
      : kinds.length
        ? "mixed"
        : "";
  }
  frame({ node, x, y, w, h }) {
    const name = node.op >= 0 || node.kind === "part" ? `${node.label}  runs:` : labelOf(node);
    return svg(
      "g",
      {
        class: `frame ${node.kind}`,
        "data-id": node.id,
        role: "button",
        tabindex: -1,
        "aria-expanded": "true",
        "aria-label": `${labelOf(node)}, ${plural(node.ops.length, "op")}, open group`,
      },
      svg("rect", { x, y, width: w, height: h, rx: 9 }),
      svg("rect", { x, y, width: w, height: TITLE - 6, rx: 9, class: "bar" }),
      svg("title", {}, this.title(node)),
      svg("text", { x: x + 12, y: y + 15 }, `▾ ${cut(name, Math.floor((w - 30) / 7))}`),
    );
  }
  box({ node, x, y, w, h, feed, pills, pillsAt }) {
    if (feed) return this.feed(node, x, y, w, h);
    const tree = this.tree,
      op = node.op >= 0 ? opAt(tree.program, node.op) : null,
      group = node.children.length > 0;
    const category = op ? op[CATEGORY] : opAt(tree.program, node.ops[0])[CATEGORY],
      io = op && ["feed", "fetch"].includes(op[TYPE]) ? "io" : "";
    // ops that other processes take part in stand out
    const shared =
      ["comm", "collective"].includes(category) &&
      node.ops.every((number) => opAt(tree.program, number)[CATEGORY] === category);
    const label = labelOf(node),
      sub = subOf(tree, node, this.owner);
    const parts = [svg("title", {}, this.title(node))];
    if (node.kind === "repeat")
      for (const shift of [8, 4])
        parts.push(svg("rect", { x: x + shift, y: y + shift, width: w, height: h, rx: 7, class: "behind" }));
    parts.push(
      svg("rect", { x, y, width: w, height: h, rx: 7, class: "body" }),
      svg("rect", {
        x,
        y: y + 6,
        width: 4,
        height: h - 12,
        rx: 2,
        class: "mark",
        style: `fill:var(--${category})`,
      }),
      svg("text", { x: x + 13, y: y + 17 }, cut(label, group ? 20 : 22)),
      svg("text", { x: x + 13, y: y + 33, class: "sub" }, cut(sub, 26)),
    );
    if (group) parts.push(svg("text", { x: x + w - 19, y: y + 18, class: "more" }, "▸"));
    (pills ?? [])
      .slice(0, pills.length > PILLS + 1 ? PILLS : PILLS + 1)
      .forEach((pill, place) =>
        parts.push(this.pill(node, pill, x, y + h / 2, pillsAt + place * (PILL_H + PILL_GAP))),
      );
    if (pills?.length > PILLS + 1)
      parts.push(
        svg(
          "text",
          { x: x - 24, y: pillsAt + PILLS * (PILL_H + PILL_GAP) + 13, class: "sub", "text-anchor": "end" },
          `${pills.length - PILLS} more`,
        ),
      );
    const what = group ? `${plural(node.ops.length, "op")}, closed group` : `op ${node.op}, ${sub}`;
    const said = `${label}, ${what}`;
    return svg(
      "g",
      {
        class: `node ${node.kind} ${io} ${shared ? category : ""} ${this.classes(node)}`,
        "data-id": node.id,
        role: "button",
        tabindex: -1,
        "aria-label": said,
        ...(group ? { "aria-expanded": "false" } : {}),
      },
      ...parts,
    );
  }
  pill(node, variable, x, y, at) {
    const name = nameOf(variable[0], this.owner),
      left = x - PILL_W - 20,
      right = left + PILL_W,
      middle = at + PILL_H / 2,
      id = `${node.id}:${variable[0]}`;
    this.boxOf.set(id, { node: { id }, x: left, y: at, w: PILL_W, h: PILL_H });
    return svg(
      "g",
      {
        class: `pill ${variable[KIND]}`,
        "data-id": id,
        "data-value": variable[0],
        role: "button",
        tabindex: -1,
        "aria-label": `${name}, ${variable[KIND]}, ${shapeText(variable)}`,
      },
      svg("title", {}, `${name}\n${variable[DECLARED]}\n${shapeText(variable)} · ${sizeText(variable)}`),
      svg("path", {
        d: `M${right} ${middle}C${right + 10} ${middle} ${x - 12} ${y} ${x - 2} ${y}`,
        class: "edge",
        "marker-end": `url(#arrow-${this.side})`,
      }),
      svg("rect", { x: left, y: at, width: PILL_W, height: PILL_H, rx: 9.5 }),
      svg("text", { x: left + 9, y: at + 13 }, cut(name, 16)),
    );
  }
  feed(node, x, y, w, h) {
    const variable = varsOf(this.tree.program).get(node.name),
      name = nameOf(node.name, this.owner);
    return svg(
      "g",
      {
        class: "node feed",
        "data-id": node.id,
        role: "button",
        tabindex: -1,
        "aria-label": `${name}, fed, ${shapeText(variable)}`,
      },
      svg("title", {}, `${name}: fed to the program\n${variable[DECLARED]}`),
      svg("rect", { x, y, width: w, height: h, rx: 15, class: "body" }),
      svg("text", { x: x + w / 2, y: y + 19, "text-anchor": "middle" }, cut(name, 22)),
    );
  }
  edge(edge) {
    return svg(
      "path",
      {
        class: `edge${edge.across ? " across" : ""}`,
        d: pathText(edge.points, edge.dx, edge.dy),
        "data-from": edge.source ?? "",
        "data-to": edge.to ?? "",
        ...(edge.arrow || edge.across ? { "marker-end": `url(#arrow-${this.side})` } : {}),
      },
      svg(
        "title",
        {},
        [...edge.names]
          .slice(0, 12)
          .map((name) => this.valueText(name, true))
          .join("\n"),
      ),
    );
  }
  valueText(number, named) {
    const variable = varsOf(this.tree.program).get(number),
      text = [shapeText(variable), sizeText(variable)].filter(Boolean).join(" · ");
    return named ? `${nameOf(number, this.owner)}  ${text}` : text;
  }
  labels() {
    // shapes beside the edges, each once and only where there is room
    const taken = this.drawn.boxes
        .filter((box) => !box.open)
        .map((box) => (box.pills?.length ? { ...box, x: box.x - PILL_W - 20, w: box.w + PILL_W + 20 } : box)),
      said = new Set(),
      found = [];
    taken.push(...this.drawn.boxes.filter((box) => box.open).map((box) => ({ ...box, h: TITLE - 4 })));
    for (const edge of this.drawn.edges) {
      const [first, second] = edge.points,
        names = [...edge.names],
        many = names.length > 1;
      if (!second || second.turn || said.has(`${edge.source}/${names}`)) continue;
      const text = edge.across
        ? `${names.length} values`
        : many
          ? plural(names.length, "value")
          : this.valueText(names[0], false);
      if (!text) continue;
      const w = text.length * 6.3 + 6,
        x = edge.dx + (first.x + second.x) / 2 + (edge.across ? -w / 2 : 5),
        y = edge.dy + (first.y + second.y) / 2 - (edge.across ? 16 : 7);
      const box = { x, y, w, h: 14 };
      if (
        taken.some(
          (other) =>
            other.x < box.x + box.w &&
            box.x < other.x + other.w &&
            other.y < box.y + box.h &&
            box.y < other.y + other.h,
        )
      )
        continue;
      taken.push(box);
      said.add(`${edge.source}/${names}`);
      found.push(svg("text", { class: "shape", x: x + 2, y: y + 11 }, text));
    }
    return found;
  }
  title(node) {
    const { program } = this.tree;
    const line = node.frame >= 0 ? `\n${frameText(D.frames[node.frame])}` : "";
    if (node.kind !== OP_KIND) return `${labelOf(node)}: ${plural(node.ops.length, "op")}${line}`;
    const op = opAt(program, node.op);
    return `${op[TYPE]}\n${ioText(op, this.owner)}\n${stackText(op)}`;
  }
  mark() {
    // what is chosen, found, or belongs to the followed parameter
    const { tree } = this,
      chosen = representative(tree, atOn(this.side))?.id,
      items = flat(tree.program),
      touched = state.param ? touchedBy(state.param) : null,
      lined = new Set(state.line ? opsOfLine(state.line.file, state.line.line) : []);
    this.chosen = chosen;
    this.scene.querySelectorAll("[data-id]").forEach((element) => {
      const node = tree.nodes.get(element.dataset.id),
        inside = node && element.classList.contains("node") ? node.ops : [];
      element.classList.toggle("at", element.dataset.id === chosen);
      element.classList.toggle(
        "hit",
        inside.some((number) => state.hits.has(items[number].id)),
      );
      element.classList.toggle(
        "lined",
        inside.some((number) => lined.has(number)),
      );
      element.classList.toggle(
        "touch",
        touched !== null && inside.some((number) => touched.has(items[number].id)),
      );
      element.setAttribute("tabindex", element.dataset.id === this.focused ? 0 : -1);
    });
    this.scene
      .querySelectorAll(".edge[data-from]")
      .forEach((edge) =>
        edge.classList.toggle(
          "on",
          chosen !== undefined && (edge.dataset.from === chosen || edge.dataset.to === chosen),
        ),
      );
    this.scene
      .querySelectorAll(".pill")
      .forEach((pill) =>
        pill.classList.toggle("touch", nameOf(Number(pill.dataset.value), this.owner) === state.param),
      );
  }

  // ------------------------------------------------------------ moving
  apply() {
    const { x, y, k } = this.view;
    this.scene.setAttribute("transform", `translate(${x} ${y}) scale(${k})`);
    this.map.look(-x / k, -y / k, this.host.clientWidth / k, this.host.clientHeight / k);
  }
  fitting(whole) {
    // the scale at which all of it is in sight, or at least readable
    const { clientWidth, clientHeight } = this.host,
      wide = (clientWidth - 2 * MARGIN) / this.drawn.width,
      high = (clientHeight - 2 * MARGIN - (whole ? TOOLS : 0)) / this.drawn.height;
    return Math.max(Math.min(wide, high, 1.25), whole ? 0 : READABLE);
  }
  fit(k, whole) {
    // all of it, or its beginning
    const { clientWidth: width, clientHeight } = this.host,
      height = clientHeight - (whole ? TOOLS : 0);
    const place = (room, size) => (size * k + 2 * MARGIN <= room ? (room - size * k) / 2 : MARGIN);
    this.view = { k, x: place(width, this.drawn.width), y: place(height, this.drawn.height) };
    this.apply();
  }
  zoom(factor, x = this.host.clientWidth / 2, y = this.host.clientHeight / 2) {
    const k = Math.min(CLOSEST, Math.max(Math.min(0.08, this.view.k), this.view.k * factor)),
      by = k / this.view.k;
    this.view = { k, x: x - (x - this.view.x) * by, y: y - (y - this.view.y) * by };
    this.apply();
  }
  move(dx, dy) {
    this.view.x += dx;
    this.view.y += dy;
    this.apply();
  }
  centre(x, y) {
    this.view.x = this.host.clientWidth / 2 - x * this.view.k;
    this.view.y = this.host.clientHeight / 2 - y * this.view.k;
    this.apply();
  }
  wheel(event) {
    event.preventDefault();
    const { left, top } = this.host.getBoundingClientRect();
    const x = event.clientX - left,
      y = event.clientY - top;
    if (event.shiftKey) guide(this, () => this.move(-event.deltaY - event.deltaX, 0), x, y);
    else guide(this, () => this.zoom(Math.exp(-event.deltaY * 0.0016), x, y), x, y);
  }
  drag(event) {
    const target = event.target.closest("[data-id]");
    const { left, top } = this.host.getBoundingClientRect(),
      bond = bondAt(this, event.clientX - left, event.clientY - top);
    let moved = 0,
      { clientX, clientY } = event;
    const move = (next) => {
      moved += Math.abs(next.clientX - clientX) + Math.abs(next.clientY - clientY);
      if (moved > 4) {
        this.move(next.clientX - clientX, next.clientY - clientY);
        pull(this, bond);
      }
      ({ clientX, clientY } = next);
    };
    const up = () => {
      removeEventListener("pointermove", move);
      if (moved <= 4 && target) this.activate(target.dataset.id);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", up, { once: true });
  }

  // ------------------------------------------------------------ choosing
  activate(id) {
    // open or close a group, show an op
    this.focused = id;
    const node = this.tree.nodes.get(id);
    if (!node) this.value(Number(id.split(":").pop()));
    else if (node.children.length) this.toggle(node);
    else select({ side: this.side, number: node.op }, true);
    this.grab();
  }
  value(number) {
    // a parameter is followed through all processes; other values have readers and writers
    const name = nameOf(number, this.owner);
    if (GROUPS.some((group) => group.name === name)) follow(name);
    else showValue(number, this.owner);
  }
  toggle(node) {
    const before = this.boxOf.get(node.id),
      k = this.view.k,
      anchor = before && { x: this.view.x + before.x * k, y: this.view.y + before.y * k };
    if (!node.parent && phasesShown(this.tree).length === 1) return;
    if (!node.parent) {
      state.phases.delete(node.id);
      refresh();
      return;
    }
    setOpen(node, !isOpen(this.tree, node));
    together((one) => one.render());
    const after = this.boxOf.get(node.id); // what was clicked stays under the pointer
    if (anchor && after) {
      this.view.x = anchor.x - after.x * k;
      this.view.y = anchor.y - after.y * k;
      this.apply();
      pull(this, bondAt(this, anchor.x, anchor.y));
    }
    remember();
  }
  reveal() {
    // bring the chosen op into sight
    const number = atOn(this.side);
    if (number < 0) {
      this.mark();
      return;
    }
    const before = representative(this.tree, number),
      hidden = !before || before.op !== number || !this.boxOf?.has(before.id);
    if (hidden) {
      unfoldTo(this.tree, number);
      this.render();
    } else this.mark();
    const box = this.boxOf.get(this.tree.ofOp.get(number)?.id);
    if (!box) return;
    this.focused = box.node.id;
    this.mark();
    const { x, y, k } = this.view,
      left = x + box.x * k,
      top = y + box.y * k;
    if (k < READABLE) {
      this.view.k = 0.85;
      this.centre(box.x + box.w / 2, box.y + box.h / 2);
    } else if (
      left < 8 ||
      top < 8 ||
      left + box.w * k > this.host.clientWidth - 8 ||
      top + box.h * k > this.host.clientHeight - 8
    )
      this.centre(box.x + box.w / 2, box.y + box.h / 2);
  }
  focusOn(id, show = true) {
    if (!this.boxOf?.has(id)) return;
    this.focused = id;
    this.scene
      .querySelectorAll("[data-id]")
      .forEach((element) => element.setAttribute("tabindex", element.dataset.id === id ? 0 : -1));
    if (!show) return;
    this.grab();
    const box = this.boxOf.get(id),
      { x, y, k } = this.view,
      left = x + box.x * k,
      top = y + box.y * k;
    if (
      left < 8 ||
      top < 8 ||
      left + Math.min(box.w, 250) * k > this.host.clientWidth - 8 ||
      top + 50 * k > this.host.clientHeight - 8
    ) {
      this.centre(...middleOf(box));
      beside(this);
    }
  }
  grab() {
    this.scene.querySelector(`[data-id="${CSS.escape(this.focused)}"]`)?.focus({ preventScroll: true });
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key],
      boxes = [...this.boxOf.values()];
    const node = this.tree.nodes.get(this.focused);
    const turn = { PageDown: 1, PageUp: -1 }[event.key],
      at = boxes.findIndex((box) => box.node.id === this.focused);
    if (way) this.focusOn(this.nearest(way));
    else if (turn) this.focusOn(boxes[(at + turn + boxes.length) % boxes.length].node.id);
    else if (event.key === "Home") this.focusOn(boxes.find((box) => !box.open)?.node.id);
    else if (event.key === "End") this.focusOn(boxes.at(-1)?.node.id);
    else if (event.key === "Enter" || event.key === " ") this.activate(this.focused);
    else if (event.key === "Backspace" && node) {
      const outer = node.children.length && isOpen(this.tree, node) ? node : node.parent;
      if (outer?.parent) {
        this.focused = outer.id;
        this.toggle(outer);
        this.grab();
      }
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
  nearest([dx, dy]) {
    // the node that lies nearest in a direction
    const spot = (box) => ({ x: box.x + box.w / 2, y: box.open ? box.y + TITLE / 2 : box.y + box.h / 2 }),
      here = this.boxOf.get(this.focused),
      from = here && spot(here);
    let best = this.focused,
      least = Infinity;
    for (const box of here ? this.boxOf.values() : []) {
      const to = spot(box),
        along = (to.x - from.x) * dx + (to.y - from.y) * dy,
        aside = Math.abs((to.x - from.x) * dy) + Math.abs((to.y - from.y) * dx);
      if (along > 1 && along + 2.2 * aside < least) {
        least = along + 2.2 * aside;
        best = box.node.id;
      }
    }
    return best;
  }
}
const arrows = (side) =>
  svg(
    "defs",
    {},
    svg(
      "marker",
      {
        id: `arrow-${side}`,
        viewBox: "0 0 8 8",
        refX: 7,
        refY: 4,
        markerUnits: "userSpaceOnUse",
        markerWidth: 9,
        markerHeight: 9,
        orient: "auto-start-reverse",
      },
      svg("path", { d: "M0 0.8L7.5 4L0 7.2Z", class: "arrow" }),
    ),
  );
