// The comparison as a list: only the rows in sight exist.
const ROW = 26;
const list = byId("list");
const FOLD = 5;                         // more removed ops than this in a row are folded away
const unfolded = new Set();
const foldKey = (row) => `${roleKey(role(), state.which)}:${row.left.number}`;
let shown = [];                         // rows of the list, block titles among them

function listRows() {
  const rows = isJob ? rowsNow().rows : flat(ORIGINAL[state.which]).map((item) => ({ kind: "kept", left: item, right: null }));
  const wanted = state.only ? rows.filter((row) => row.kind !== "kept") : rows;
  const out = [];
  let left = null, right = null, run = 0;
  for (const [index, row] of wanted.entries()) {
    run = row.kind === "removed" ? run + 1 : 0;
    if (run === 1 && !unfolded.has(foldKey(row))) {
      let end = index;
      while (wanted[end]?.kind === "removed") end++;
      if (end - index > FOLD) out.push({ fold: row, count: end - index });
    }
    if (row.kind === "removed" && out.at(-1)?.fold) continue;
    const newLeft = row.left && row.left.block !== left, newRight = row.right && row.right.block !== right;
    if (newLeft || newRight) out.push({ block: true, left: newLeft ? row.left.block : null, right: newRight ? row.right.block : null });
    if (newLeft) left = row.left.block;
    if (newRight) right = row.right.block;
    out.push(row);
  }
  return out;
}

function opCell(item, kind, owner) {
  if (!item) return el("div", { className: "cell hollow" });
  const op = D.ops[item.id], marks = [state.hits.has(item.id) ? "hit" : "", state.param && touchedBy(state.param).has(item.id) ? "touch" : ""];
  const cell = el("div", { className: `cell op ${kind} ${marks.join(" ")}`, title: `${op[TYPE]}\n${ioText(op, owner)}\n${lineOf(op)}` },
    el("span", { className: "no" }, String(item.number)), el("span", { className: "dot", style: `background:var(--${op[CATEGORY]})` }),
    el("span", { className: "type" }, op[TYPE]), el("span", { className: "io" }, ioText(op, owner)), el("span", { className: "line" }, shortLine(op)));
  cell.onclick = () => { state.at = { side: owner === ORIGINAL ? "left" : "right", number: item.number }; showOp(item, owner, kind); renderList(); };
  return cell;
}

function foldNode(row) {
  const open = () => { unfolded.add(foldKey(row.fold)); refreshList(); };
  return [el("button", { className: "cell fold removed", title: "Show them", onclick: open }, `${row.count} ops of the original are not here  ▸`), el("div", { className: "cell hollow" })];
}

function rowNode(row, index) {
  const cells = row.fold ? foldNode(row) : row.block
    ? [row.left, row.right].map((block) => el("div", { className: block === null ? "cell hollow" : "cell block" }, block === null ? "" : `block ${block}`))
    : [opCell(row.left, row.kind === "kept" || row.kind === "inserted" ? "" : row.kind, ORIGINAL),
      opCell(row.right, row.kind === "kept" || row.kind === "removed" ? "" : row.kind, role())];
  return el("div", { className: `row${isAt(row) ? " at" : ""}`, style: `top:${index * ROW}px` }, ...cells);
}
const isAt = (row) => state.at && !row.block && !row.fold && (state.at.side === "left" ? row.left : row.right)?.number === state.at.number;

function renderList() {
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 8), last = Math.min(shown.length, first + Math.ceil(list.clientHeight / ROW) + 16);
  const rows = [];
  for (let index = first; index < last; index++) rows.push(rowNode(shown[index], index));
  const empty = el("p", { className: "empty" }, state.only ? "No differences: this program is the original's." : "This program has no ops.");
  list.replaceChildren(shown.length ? el("div", { style: `height:${shown.length * ROW}px` }) : empty, ...rows);
}

function refreshList() {
  shown = listRows();
  renderList();
}

function reveal(at) {                   // scroll to the row of {side, number}
  state.at = at;
  let index = shown.findIndex(isAt);
  if (index < 0) {                      // it may be folded away
    shown.filter((row) => row.fold).forEach((row) => unfolded.add(foldKey(row.fold)));
    refreshList();
    index = shown.findIndex(isAt);
  }
  if (index < 0 && state.only) { state.only = byId("only").checked = false; refreshList(); index = shown.findIndex(isAt); }
  if (index >= 0 && (index * ROW < list.scrollTop || (index + 2) * ROW > list.scrollTop + list.clientHeight)) {
    list.scrollTop = Math.max(0, index * ROW - list.clientHeight / 3);
  }
  renderList();
}

function step(by) {                     // move the selection up or down
  const now = shown.findIndex(isAt);
  let index = now < 0 ? Math.floor(list.scrollTop / ROW) - (by > 0 ? 1 : 0) : now;
  do index += by; while (shown[index]?.block || shown[index]?.fold);
  const row = shown[index];
  if (row) reveal(row.right && isJob ? { side: "right", number: row.right.number } : { side: "left", number: row.left.number });
}
function openSelected() {
  const row = shown.find(isAt);
  if (!row) return;
  const right = state.at.side === "right";
  showOp(right ? row.right : row.left, right ? role() : ORIGINAL, row.kind);
}
list.addEventListener("scroll", () => requestAnimationFrame(renderList));
addEventListener("resize", () => renderList());
