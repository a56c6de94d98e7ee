// The comparison as a list: only the rows in sight exist.
const ROW = 26;
const list = byId("list");
const FOLD = 5; // more removed ops than this in a row are folded away
const unfolded = new Set();
const foldKey = (row) => `${roleKey(role(), state.which)}:${row.left.number}`;
let shown = []; // rows of the list, block titles among them

const twoColumns = () => isJob && state.view === "list";
function listRows() {
  const kinds = isJob ? rowsNow().newKind : null;
  const rows = twoColumns()
    ? rowsNow().rows
    : flat(role()[state.which]).map((item) => ({
        kind: kinds?.[item.number] ?? "kept",
        left: isJob ? null : item,
        right: isJob ? item : null,
      }));
  const wanted = state.only && isJob ? rows.filter((row) => row.kind !== "kept") : rows;
  const out = [];
  let left = null,
    right = null,
    run = 0;
  for (const [index, row] of wanted.entries()) {
    run = row.kind === "removed" ? run + 1 : 0;
    if (run === 1 && !unfolded.has(foldKey(row))) {
      let end = index;
      while (wanted[end]?.kind === "removed") end++;
      if (end - index > FOLD) out.push({ fold: row, count: end - index });
    }
    if (row.kind === "removed" && out.at(-1)?.fold) continue;
    const newLeft = row.left && row.left.block !== left,
      newRight = row.right && row.right.block !== right;
    if (newLeft || newRight)
      out.push({
        block: true,
        left: newLeft ? row.left.block : null,
        right: newRight ? row.right.block : null,
      });
    if (newLeft) left = row.left.block;
    if (newRight) right = row.right.block;
    out.push(row);
  }
  return out;
}

function opCell(item, kind, owner) {
  if (!item) return el("div", { className: "cell hollow" });
  const op = D.ops[item.id],
    marks = [
      state.hits.has(item.id) ? "hit" : "",
      state.param && touchedBy(state.param).has(item.id) ? "touch" : "",
    ];
  const cell = el(
    "div",
    {
      className: `cell op ${kind} ${marks.join(" ")}`,
      title: `${op[TYPE]}\n${ioText(op, owner)}\n${stackText(op)}`,
    },
    el("span", { className: "no" }, String(item.number)),
    el("span", { className: "dot", style: `background:var(--${op[CATEGORY]})` }),
    el("span", { className: "type" }, op[TYPE]),
    el("span", { className: "io" }, ioText(op, owner)),
    el("span", { className: "line" }, shortLine(op)),
  );
  cell.onclick = () => select({ side: owner === ORIGINAL ? "left" : "right", number: item.number }, true);
  return cell;
}

function foldNode(row) {
  const open = () => {
    unfolded.add(foldKey(row.fold));
    refreshList();
  };
  return [
    el(
      "button",
      { className: "cell fold removed", title: "Show them", onclick: open },
      `${row.count} ops of the original are not here  ▸`,
    ),
    el("div", { className: "cell hollow" }),
  ];
}

function rowNode(row, index) {
  const title = (block) =>
    el(
      "div",
      { className: block === null ? "cell hollow" : "cell block" },
      block === null ? "" : `block ${block}`,
    );
  const kindOn = (other) => (row.kind === "kept" || row.kind === other ? "" : row.kind);
  let cells = row.fold
    ? foldNode(row)
    : row.block
      ? [title(row.left), title(row.right)]
      : [opCell(row.left, kindOn("inserted"), ORIGINAL), opCell(row.right, kindOn("removed"), role())];
  if (!twoColumns()) cells = [cells[isJob ? 1 : 0]];
  const node = el(
    "div",
    { className: `row${isAt(row) ? " at" : ""}`, style: `top:${index * ROW}px` },
    ...cells,
  );
  return node;
}
function isAt(row) {
  if (!state.at || row.block || row.fold) return false;
  const side = twoColumns() ? state.at.side : MY_SIDE;
  return (side === "left" ? row.left : row.right)?.number === atOn(side) && atOn(side) >= 0;
}

function renderList() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 8),
    last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 16);
  const rows = [];
  for (let index = first; index < last; index++) rows.push(rowNode(shown[index], index));
  const empty = el(
    "p",
    { className: "empty" },
    state.only ? "No differences: this program is the original's." : "This program has no ops.",
  );
  list.replaceChildren(
    shown.length ? el("div", { style: `height:${shown.length * ROW}px` }) : empty,
    ...rows,
  );
}

function refreshList() {
  shown = listRows();
  renderList();
}

function revealRow() {
  // scroll to the chosen op
  if (!state.at || list.hidden) return;
  let index = shown.findIndex(isAt);
  if (index < 0 && atOn(twoColumns() ? state.at.side : MY_SIDE) >= 0) {
    // it may be folded away
    shown.filter((row) => row.fold).forEach((row) => unfolded.add(foldKey(row.fold)));
    refreshList();
    index = shown.findIndex(isAt);
    if (index < 0 && state.only) {
      state.only = byId("only").checked = false;
      refreshList();
      index = shown.findIndex(isAt);
    }
  }
  if (
    index >= 0 &&
    (index * ROW < list.scrollTop || (index + 2) * ROW > list.scrollTop + list.clientHeight)
  ) {
    list.scrollTop = Math.max(0, index * ROW - list.clientHeight / 3);
  }
  renderList();
}

function step(by) {
  // choose the next op up or down
  const now = shown.findIndex(isAt);
  let index = now < 0 ? Math.floor(list.scrollTop / ROW) - (by > 0 ? 1 : 0) : now;
  do index += by;
  while (shown[index]?.block || shown[index]?.fold);
  const row = shown[index];
  if (row)
    select(
      row.right && isJob
        ? { side: "right", number: row.right.number }
        : { side: "left", number: row.left.number },
      false,
    );
}
function openSelected() {
  if (!state.at) return;
  const owner = ownerOf(state.at.side),
    item = flat(owner[state.which])[state.at.number];
  if (item) showOp(item, owner);
}
list.addEventListener("scroll", () => requestAnimationFrame(renderList));
