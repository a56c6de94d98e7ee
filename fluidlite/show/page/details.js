// The drawer: one op, one value, or one parameter through every process.
const drawer = byId("drawer");
const openDrawer = (...children) => {
  drawer.replaceChildren(
    el("button", { className: "close", title: "Close (Esc)", onclick: closeDrawer }, "✕"),
    ...children,
  );
  drawer.hidden = false;
  document.body.classList.add("drawn");
  drawer.scrollTop = 0;
  resized();
};
const resized = () => {
  // the drawer stands beside the panes, and covers nothing of them
  together((pane) => pane.drawn && pane.apply());
  if (state.view === "job") overview.render();
  renderList();
};
function closeDrawer() {
  if (drawer.hidden) return;
  drawer.hidden = true;
  document.body.classList.remove("drawn");
  state.param = null;
  resized();
  markAll();
  remember();
}

const jump = (item, owner, which, first) =>
  el(
    "button",
    { className: "jump", onclick: () => goTo(first, which, item.number) },
    el("span", { className: "dot", style: `background:var(--${D.ops[item.id][CATEGORY]})` }),
    el("span", { className: "type" }, D.ops[item.id][TYPE]),
    el("span", { className: "io" }, ioText(D.ops[item.id], owner)),
  );

const TOUCHED = isJob
  ? "Every op of every process that touches it, its gradient or a piece of either:"
  : "Every op that touches it or its gradient:";
function follow(param) {
  state.param = param;
  const touched = touchedBy(param),
    group = GROUPS.find((one) => one.name === param),
    parts = [...valuesOf(param)];
  if (group?.slices.length)
    parts.push(
      el("h3", {}, "Where its rows are"),
      track(group, null),
      el(
        "table",
        {},
        ...group.slices.map((slice) =>
          el(
            "tr",
            {},
            el("td", {}, `rows ${rowsText(slice.first, slice.shape)}`),
            el("td", {}, serverCell(slice.server)),
          ),
        ),
      ),
    );
  for (const which of ["main", "startup"])
    for (const one of ORIGINAL[which] === undefined ? [] : groupsOfRoles(which)) {
      const found = flat(one.program).filter((item) => touched.has(item.id));
      if (found.length)
        parts.push(
          el("h3", {}, `${groupTitle(one)} · ${which} program`),
          ...found.slice(0, 60).map((item) => jump(item, one.roles[0], which, one.first)),
        );
    }
  openDrawer(
    el("h2", {}, param),
    el("p", { className: "note" }, group?.shape ? `[${group.shape.join(", ")}]  ${TOUCHED}` : ""),
    ...parts,
  );
  markAll();
  remember();
}

function declarationOf(number, program) {
  const variable = varsOf(program).get(number);
  return variable ? `${variable[DECLARED]}${sizeText(variable) ? `, ${sizeText(variable)}` : ""}` : "";
}
const nameRow = (slot, number, owner) => {
  const name = nameOf(number, owner),
    known = GROUPS.some((group) => group.name === name);
  return el(
    "tr",
    {},
    el("td", {}, slot),
    el(
      "td",
      { className: "mono" },
      known
        ? paramButton(name)
        : el(
            "button",
            { className: "name", title: "Who writes and reads it", onclick: () => showValue(number, owner) },
            name,
          ),
      el("div", { className: "note" }, declarationOf(number, owner[state.which])),
    ),
  );
};
const slotTable = (slots, owner) =>
  el(
    "table",
    {},
    ...slots.flatMap(([slot, names]) => names.map((name, at) => nameRow(at ? "" : slot, name, owner))),
  );

const lineButton = (file, line, text) =>
  el(
    "button",
    {
      className: "name mono",
      title: `${D.files[file]}:${line}: show it`,
      onclick: () => showLine(file, line),
    },
    text,
  );
const stackList = (op) =>
  el(
    "ol",
    { className: "stack" },
    ...framesOf(op).map(([file, line, name, source]) =>
      el(
        "li",
        {},
        D.listings[file]
          ? lineButton(file, line, frameText([file, line, name]))
          : el(
              "span",
              { className: "mono", title: `${D.files[file]}:${line}` },
              frameText([file, line, name]),
            ),
        source ? el("code", {}, source) : "",
      ),
    ),
  );

function showOp(item, owner) {
  const op = D.ops[item.id],
    parts = [],
    [called] = op[STACK] < 0 ? [""] : D.stacks[op[STACK]];
  const kind = isJob
    ? compare(role(), state.which)[owner === ORIGINAL ? "oldKind" : "newKind"][item.number]
    : "kept";
  if (kind !== "kept") parts.push(el("p", {}, el("b", { className: kind }, kind)));
  parts.push(
    el(
      "p",
      { className: "note" },
      `op ${item.number}${isJob ? ` of ${owner.name}` : ""}, block ${item.block}`,
    ),
  );
  parts.push(...elsewhere(item, op, owner));
  if (op[STACK] >= 0)
    parts.push(el("h3", {}, called ? `Made by ${called}, called at` : "Made at"), stackList(op));
  if (op[INPUTS].length) parts.push(el("h3", {}, "Reads"), slotTable(op[INPUTS], owner));
  if (op[OUTPUTS].length) parts.push(el("h3", {}, "Writes"), slotTable(op[OUTPUTS], owner));
  if (op[ATTRS].length)
    parts.push(
      el("h3", {}, "Attributes"),
      el(
        "table",
        {},
        ...attrsOf(op).map(([name, value]) =>
          el("tr", {}, el("td", {}, name), el("td", { className: "mono" }, filled(value, owner))),
        ),
      ),
    );
  if (isJob && owner !== ORIGINAL) parts.push(...beforeOf(item, op, owner));
  openDrawer(el("h2", {}, op[TYPE]), ...parts);
}

function showValue(number, owner) {
  // who writes and reads a value
  const items = flat(owner[state.which]),
    rows = (slot) =>
      items
        .filter((item) => slotNames(D.ops[item.id][slot]).includes(number))
        .slice(0, 60)
        .map((item) => jump(item, owner, state.which, owner === ORIGINAL ? -1 : state.role));
  const [writers, readers] = [rows(OUTPUTS), rows(INPUTS)];
  openDrawer(
    el("h2", {}, nameOf(number, owner)),
    el("p", { className: "note" }, declarationOf(number, owner[state.which])),
    ...(writers.length ? [el("h3", {}, "Written by"), ...writers] : []),
    ...(readers.length ? [el("h3", {}, "Read by"), ...readers] : []),
  );
}

function beforeOf(item, op, owner) {
  // what a changed op was in the original
  const match = matchesOf(owner, state.which)[item.number];
  if (match >= 0) return [];
  const old = flat(ORIGINAL[state.which])[-match - 1],
    was = D.ops[old.id],
    lines = [];
  for (const part of [INPUTS, OUTPUTS, ATTRS]) {
    const [mine, theirs] = [op, was].map((one) => new Map(part === ATTRS ? attrsOf(one) : one[part]));
    const text = (value, one) =>
      value === undefined
        ? "–"
        : Array.isArray(value)
          ? value.map((name) => nameOf(name, one)).join(", ")
          : filled(value, one);
    for (const key of new Set([...mine.keys(), ...theirs.keys()])) {
      const [before, now] = [text(theirs.get(key), ORIGINAL), text(mine.get(key), owner)];
      if (before !== now)
        lines.push(el("tr", {}, el("td", {}, key), el("td", { className: "mono" }, `${before}  →  ${now}`)));
    }
  }
  return [el("h3", {}, `Changed from op ${old.number} of the original`), el("table", {}, ...lines)];
}
