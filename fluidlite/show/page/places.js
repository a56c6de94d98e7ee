// Which server holds which rows: the table, and the drawer that follows one parameter or shows one op.
const FEW = 8;
const opened = new Set();
const rowsText = (first, shape) => (shape[0] ?? 1) === 1 ? String(first) : `${first} – ${first + shape[0] - 1}`;
const allNote = (group) => group.slices.length > 1 ? "" : el("span", { className: "note" }, "  all");
const grouped = () => {
  const groups = new Map(D.params.map(([name, shape]) => [name, { name, shape, slices: [] }]));
  for (const [name, , , , first, shape, server] of D.slices) {
    if (!groups.has(name)) groups.set(name, { name, shape: null, slices: [] });
    groups.get(name).slices.push({ first, shape, server });
  }
  groups.forEach((group) => group.slices.sort((a, b) => a.first - b.first));
  return [...groups.values()];
};
const GROUPS = grouped();
const paramButton = (name) => el("button", { className: "name", title: "Follow this parameter", onclick: () => follow(name) }, name);
const serverCell = (index) => {
  const one = serverOf.get(index);
  return el("button", { className: "server", title: "Show this server's program", onclick: () => choose({ role: D.roles.indexOf(one) }) },
    el("i", { className: "swatch", style: `background:${colour(index)}` }), `${one.endpoint}`, el("span", { className: "note" }, one.name));
};
const track = (group, index) => el("div", { className: "track", title: `${group.slices.length} slice${group.slices.length > 1 ? "s" : ""}` },
  ...group.slices.map((slice, at) => el("i", { className: index === null || at === index ? "mine" : "", style: `flex:${slice.shape[0] ?? 1};background:${colour(slice.server)}` })));

function placeRows(group) {
  const few = group.slices.length > FEW + 2 && !opened.has(group.name) ? group.slices.slice(0, FEW) : group.slices;
  const shapeText = group.shape ? `[${group.shape.join(", ")}]` : "";
  const at = state.param === group.name ? " at" : "";
  if (!few.length) {
    const where = D.endpoints.length ? "on no server (not trained)" : "on every trainer, whole";
    return [el("tr", { className: `first${at}` }, el("td", {}, paramButton(group.name)), el("td", { className: "mono" }, shapeText),
      el("td", {}, group.shape ? rowsText(0, group.shape) : "", el("span", { className: "note" }, "  all")), el("td", { className: "note" }, where), el("td", { className: "wide" }))];
  }
  const rows = few.map((slice, index) => el("tr", { className: (index ? "" : "first") + at }, el("td", {}, index ? "" : paramButton(group.name)),
    el("td", { className: "mono" }, index ? "" : shapeText), el("td", {}, rowsText(slice.first, slice.shape), allNote(group)), el("td", {}, serverCell(slice.server)),
    el("td", { className: "wide" }, few.length > 40 ? "" : track(group, index))));
  if (few.length < group.slices.length) {
    const more = el("button", { className: "more", onclick: () => { opened.add(group.name); renderPlaces(); } }, `… ${group.slices.length - few.length} more slices`);
    rows.push(el("tr", { className: at }, el("td"), el("td"), el("td", {}, more), el("td"), el("td", { className: "wide" }, track(group, null))));
  }
  return rows;
}

const SOME = 300;
let tableRows = SOME;
function renderPlaces() {
  byId("places").hidden = !GROUPS.length || !isJob;
  byId("places-note").textContent = D.endpoints.length ? "Rows are counted from 0, both ends included. Click a parameter to follow it through every process."
    : "This mode has no servers: every trainer holds every parameter. Click one to follow it.";
  const heads = ["parameter", "shape", "rows", D.endpoints.length ? "server" : "held by", D.endpoints.length ? "share of the parameter" : ""];
  byId("places-table").tHead.replaceChildren(el("tr", {}, ...heads.map((head, index) => el("th", { className: index === 4 ? "wide" : "" }, head))));
  const rows = [];
  for (const group of GROUPS) { if (rows.length >= tableRows) break; rows.push(...placeRows(group)); }
  if (rows.length >= tableRows) {
    rows.push(el("tr", {}, el("td", {}, el("button", { className: "more", onclick: () => { tableRows *= 4; renderPlaces(); } }, "show more parameters …"))));
  }
  byId("places-table").tBodies[0].replaceChildren(...rows);
}

// ---------------------------------------------------------------- the drawer
const drawer = byId("drawer");
const openDrawer = (...children) => {
  drawer.replaceChildren(el("button", { className: "close", title: "Close (Esc)", onclick: closeDrawer }, "✕"), ...children);
  const narrower = drawer.hidden;
  drawer.hidden = false;
  document.body.classList.add("drawn");
  if (narrower && state.view === "graph") refreshGraphs();
  drawer.scrollTop = 0;
};
function closeDrawer() {
  if (drawer.hidden) return;
  drawer.hidden = true;
  document.body.classList.remove("drawn");
  state.param = null;
  refresh();
}

const jump = (item, owner, which, first) => el("button", { className: "jump", onclick: () => goTo(first, which, item.number) },
  el("span", { className: "dot", style: `background:var(--${D.ops[item.id][CATEGORY]})` }), el("span", { className: "type" }, D.ops[item.id][TYPE]),
  el("span", { className: "io" }, ioText(D.ops[item.id], owner)));

function follow(param) {
  state.param = param;
  const touched = touchedBy(param), group = GROUPS.find((one) => one.name === param), parts = [];
  if (group?.slices.length) parts.push(el("h3", {}, "Where its rows are"), track(group, null), el("table", {}, ...group.slices.map((slice) =>
    el("tr", {}, el("td", {}, `rows ${rowsText(slice.first, slice.shape)}`), el("td", {}, serverCell(slice.server))))));
  for (const which of ["main", "startup"]) for (const one of ORIGINAL[which] === undefined ? [] : groupsOfRoles(which)) {
    const found = flat(one.program).filter((item) => touched.has(item.id));
    if (found.length) parts.push(el("h3", {}, `${groupTitle(one)} · ${which} program`), ...found.slice(0, 60).map((item) => jump(item, one.roles[0], which, one.first)));
  }
  openDrawer(el("h2", {}, param), el("p", { className: "note" }, group?.shape ? `[${group.shape.join(", ")}]  Every op of every process that touches it, its gradient or a piece of either:` : ""), ...parts);
  refresh();
}

function declarationOf(number, program) {
  for (const [, , , variables] of D.programs[program]) for (const id of variables) if (D.vars[id][0] === number) return D.vars[id][1];
  return "";
}
const nameRow = (slot, number, owner) => {
  const name = nameOf(number, owner), known = GROUPS.some((group) => group.name === name);
  return el("tr", {}, el("td", {}, slot), el("td", { className: "mono" }, known ? paramButton(name) : name, el("div", { className: "note" }, declarationOf(number, owner[state.which]))));
};
const slotTable = (slots, owner) => el("table", {}, ...slots.flatMap(([slot, names]) => names.map((name, at) => nameRow(at ? "" : slot, name, owner))));

function showOp(item, owner, kind) {
  const op = D.ops[item.id], parts = [];
  if (kind && kind !== "kept") parts.push(el("p", {}, el("b", { className: kind }, kind)));
  parts.push(el("p", { className: "note" }, `op ${item.number} of ${owner.name}, block ${item.block}`), el("p", { className: "mono note" }, lineOf(op)));
  if (op[INPUTS].length) parts.push(el("h3", {}, "Reads"), slotTable(op[INPUTS], owner));
  if (op[OUTPUTS].length) parts.push(el("h3", {}, "Writes"), slotTable(op[OUTPUTS], owner));
  if (op[ATTRS].length) parts.push(el("h3", {}, "Attributes"), el("table", {}, ...op[ATTRS].map(([name, value]) =>
    el("tr", {}, el("td", {}, name), el("td", { className: "mono" }, filled(value, owner))))));
  if (isJob && owner !== ORIGINAL) parts.push(...beforeOf(item, op, owner));
  openDrawer(el("h2", {}, op[TYPE]), ...parts);
}

function beforeOf(item, op, owner) {    // what a changed op was in the original
  const match = matchesOf(owner, state.which)[item.number];
  if (match >= 0) return [];
  const old = flat(ORIGINAL[state.which])[-match - 1], was = D.ops[old.id], lines = [];
  for (const part of [INPUTS, OUTPUTS, ATTRS]) {
    const mine = new Map(op[part]), theirs = new Map(was[part]);
    const text = (value, one) => value === undefined ? "–" : Array.isArray(value) ? value.map((name) => nameOf(name, one)).join(", ") : filled(value, one);
    for (const key of new Set([...mine.keys(), ...theirs.keys()])) {
      const [before, now] = [text(theirs.get(key), ORIGINAL), text(mine.get(key), owner)];
      if (before !== now) lines.push(el("tr", {}, el("td", {}, key), el("td", { className: "mono" }, `${before}  →  ${now}`)));
    }
  }
  return [el("h3", {}, `Changed from op ${old.number} of the original`), el("table", {}, ...lines)];
}
