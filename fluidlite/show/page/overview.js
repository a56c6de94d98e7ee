// A job as a whole: its processes as boxes that open their programs, and the bytes between them.
const [JOB_W, JOB_H, JOB_GAP, RING_GAP, JOB_EDGE] = [166, 64, 30, 88, 20];
const LANES = 150, // between trainers and servers
  LARGEST = 1.6;
const bytesBetween = (sender, receiver) =>
  D.links.find(([from, to]) => from === sender && to === receiver)?.[2] ?? 0;

function shownOf(kind, most) {
  // the roles that get a box; of many the first ones and the last, and the number of those between
  const all = rolesWith(kind);
  if (all.length <= most) return all;
  return [...all.slice(0, most - 2), { more: all.length - most + 1, index: all[most - 2].index }, all.at(-1)];
}
function holdsText(one) {
  // ops of a step, and bytes of the parameters that a process holds
  const pieces = new Set(D.slices.map(([, , piece]) => piece)),
    own = [...varsOf(one.main)].filter(([number, variable]) =>
      one.kind === "trainer" ? variable[KIND] === "parameter" : pieces.has(D.names[number]),
    );
  const bytes = own.reduce((sum, [, variable]) => sum + bytesOf(variable), 0);
  return `${plural(flat(one.main).length, "op")} · ${bytesText(bytes)}`;
}

class Overview {
  constructor() {
    this.host = byId("job-drawing");
    this.scene = svg("g");
    this.canvas = svg("svg", { role: "group", "aria-label": "The processes of the job" });
    this.canvas.append(arrows("job"), this.scene);
    this.host.append(this.canvas);
    byId("overview").append(el("div", { className: "tools" }, ...saveTools(this, () => "job")));
    this.canvas.addEventListener("click", (event) => this.open(event));
    this.canvas.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") this.open(event);
    });
  }
  open(event) {
    // the program of a box, or the ops behind some bytes
    const target = event.target.closest("[data-role], [data-server]");
    if (!target) return;
    event.preventDefault();
    event.stopPropagation();
    if (target.dataset.role !== undefined)
      choose({ view: "both", which: "main", role: Number(target.dataset.role) });
    else this.tell(Number(target.dataset.server));
  }
  tell(server) {
    // the ops with which a trainer speaks to a server
    const all = exchanges().get(String(server)) ?? [],
      { one } = all[0] ?? {};
    openDrawer(
      el("h2", {}, serverOf.get(server).name),
      serverCell(server),
      el("p", { className: "note" }, "Other trainers do the same as this one:"),
      ...(one
        ? linkList(
            `${one.name} sends and fetches`,
            all.filter((place) => place.one === one && place.which === "main"),
          )
        : []),
    );
  }
  render() {
    byId("job-note").textContent = this.note();
    const width = Math.max(460, this.host.clientWidth - 2),
      draw = D.endpoints.length ? this.served : this.ring,
      gap = D.endpoints.length ? JOB_GAP : RING_GAP,
      most = Math.max(2, Math.floor((width - 2 * JOB_EDGE + gap) / (JOB_W + gap)));
    draw.call(this, width, most);
    // once more, larger where there is room
    const room = this.columns * (JOB_W + gap) + 2 * JOB_EDGE,
      k = Math.max(1, Math.min(LARGEST, width / room, (this.host.clientHeight - 4) / this.height));
    this.scene.replaceChildren(...draw.call(this, width / k, most));
    const size = { width, height: this.height * k, viewBox: `0 0 ${width / k} ${this.height}` };
    Object.entries(size).forEach(([key, value]) => this.canvas.setAttribute(key, value));
  }
  note() {
    const { one } = rolesWith("trainer")[0],
      served = D.endpoints.length > 0,
      sum = (side) =>
        D.links.filter((link) => link[side] === one.name).reduce((all, link) => all + link[2], 0),
      [out, into] = [sum(0), sum(1)].map((bytes) => bytesText(Math.round(bytes)));
    const bytes = D.links.length
      ? `In a step of ${plural(D.batch, "sample")} each ${served ? "trainer" : "rank"} sends ${out}` +
        `${served ? ` and receives ${into}` : ""}. `
      : "";
    return `${bytes}Click a process for its program${served ? ", bytes for the ops behind them" : ""}.`;
  }
  box(shown, x, y) {
    const { one, index, more } = shown,
      label = more ? `… ${more} more` : one.name;
    const parts = [
      svg("rect", { x, y, width: JOB_W, height: JOB_H, rx: 8, class: more ? "body more" : "body" }),
      svg("text", { x: x + JOB_W / 2, y: y + (more ? 37 : 20), class: "name" }, label),
    ];
    if (!more)
      parts.push(
        ...[one.endpoint, holdsText(one)]
          .filter(Boolean)
          .map((text, row) => svg("text", { x: x + JOB_W / 2, y: y + 37 + 16 * row, class: "sub" }, text)),
      );
    return svg(
      "g",
      {
        class: `process ${D.roles[index].kind}`,
        "data-role": index,
        role: "button",
        tabindex: 0,
        "aria-label": more ? `${label}, the first of them` : `${label}, ${one.endpoint}, ${holdsText(one)}`,
      },
      svg("title", {}, more ? "Open the first of these" : `Open the programs of ${one.name}`),
      ...parts,
    );
  }
  row(shown, width, y, gap) {
    // [{shown, x, y}], in the middle
    const room = shown.length * (JOB_W + gap) - gap;
    return shown.map((one, place) => ({ shown: one, x: (width - room) / 2 + place * (JOB_W + gap), y }));
  }
  heading(text, width, y) {
    return svg("text", { x: width / 2, y, class: "job-heading" }, text);
  }
  line(d, both) {
    return svg("path", {
      d,
      class: "edge traffic",
      "marker-end": "url(#arrow-job)",
      ...(both ? { "marker-start": "url(#arrow-job)" } : {}),
    });
  }
  label(text, x, y, server) {
    const w = text.length * 7 + 16;
    return svg(
      "g",
      {
        class: "bytes",
        ...(server === undefined
          ? {}
          : { "data-server": server, role: "button", tabindex: 0, "aria-label": `${text}: show the ops` }),
      },
      svg("rect", { x: x - w / 2, y: y - 11, width: w, height: 21, rx: 10 }),
      svg("text", { x, y: y + 4 }, text),
    );
  }
  served(width, most) {
    // trainers above, servers below, each with the bytes of one trainer
    const above = this.row(shownOf("trainer", most), width, 38, JOB_GAP),
      below = this.row(shownOf("pserver", most), width, 38 + JOB_H + LANES, JOB_GAP);
    this.height = 38 + 2 * JOB_H + LANES + 44;
    this.columns = Math.max(above.length, below.length, 2);
    const middle = (box) => box.x + JOB_W / 2,
      lines = [],
      labels = [];
    for (const [place, server] of below.entries()) {
      if (server.shown.more) continue;
      for (const trainer of above) {
        if (trainer.shown.more) continue;
        const [x0, x1] = [middle(trainer), middle(server)],
          lean = (x1 - x0) / width;
        lines.push(
          this.line(`M${x0 + lean * 70} ${trainer.y + JOB_H + 3}L${x1 - lean * 70} ${server.y - 3}`, true),
        );
      }
      const [first] = rolesWith("trainer"),
        { one } = server.shown,
        number = [...serverOf].find(([, known]) => known === one)[0];
      const [there, back] = [bytesBetween(first.one.name, one.name), bytesBetween(one.name, first.one.name)];
      if (there || back)
        labels.push(
          this.label(
            `↓ ${bytesText(Math.round(there))}  ↑ ${bytesText(Math.round(back))}`,
            middle(server),
            server.y - 24 - (place % 2) * 27,
            number,
          ),
        );
    }
    return [
      this.heading("Trainers: each computes on a batch of its own", width, 22),
      this.heading("Servers: each holds a part of the parameters", width, this.height - 16),
      ...lines,
      ...labels,
      ...[...above, ...below].map(({ shown, x, y }) => this.box(shown, x, y)),
    ];
  }
  ring(width, most) {
    // ranks in a circle, each with what it sends to the next
    const shown = shownOf("trainer", 2 * most),
      half = shown.length > most ? Math.ceil(shown.length / 2) : shown.length;
    const top = this.row(shown.slice(0, half), width, 38, RING_GAP),
      bottom = this.row(shown.slice(half).reverse(), width, 38 + JOB_H + 76, RING_GAP).reverse();
    bottom.forEach((box, place) => (box.x = top[half - 1 - place].x));
    this.columns = Math.max(half, 2);
    this.height = 38 + JOB_H + 76 + (bottom.length ? JOB_H + 30 : 0);
    const boxes = [...top, ...bottom],
      drawn = boxes.map(({ shown: one, x, y }) => this.box(one, x, y));
    const heading = this.heading(
      D.links.length
        ? "Every rank has all parameters; sums of all ranks go around the ring"
        : "Every process has all parameters",
      width,
      22,
    );
    if (!D.links.length || boxes.length < 2) return [heading, ...drawn];
    const text = bytesText(Math.round(D.links[0][2]));
    return [heading, ...boxes.flatMap((box, place) => this.hop(boxes, place, text)), ...drawn];
  }
  hop(boxes, place, text) {
    // from a rank to the next one
    const box = boxes[place],
      next = boxes[(place + 1) % boxes.length],
      middle = box.y + JOB_H / 2,
      [x0, x1] = [box.x + JOB_W / 2, next.x + JOB_W / 2];
    if (box.y !== next.y) {
      const down = next.y > box.y,
        [from, to] = down ? [box.y + JOB_H + 3, next.y - 3] : [box.y - 3, next.y + JOB_H + 3];
      return [this.line(`M${x0} ${from}L${x1} ${to}`), this.label(text, (x0 + x1) / 2, (from + to) / 2)];
    }
    if (place === boxes.length - 1) {
      // from the last back to the first
      const low = box.y + JOB_H + 40;
      return [
        this.line(`M${x0} ${box.y + JOB_H + 3}V${low}H${x1}V${next.y + JOB_H + 3}`),
        this.label(text, (x0 + x1) / 2, low),
      ];
    }
    const right = next.x > box.x,
      [from, to] = right ? [box.x + JOB_W + 3, next.x - 3] : [box.x - 3, next.x + JOB_W + 3];
    return [this.line(`M${from} ${middle}H${to}`), this.label(text, (from + to) / 2, middle - 17)];
  }
}
const overview = isJob ? new Overview() : null;
