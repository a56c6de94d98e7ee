// The script beside the graph: a line that made ops leads to them, an op to its line.
const code = byId("code");
const codeFile = byId("code-file");
const codeText = byId("code-text");
const hasCode = Object.keys(D.listings).length > 0;
let listed = null; // what the pane holds: a file of a program

const madeCache = new Map();
function madeBy(program) {
  // file -> line -> the ops that it made, itself or by the functions that it calls
  if (madeCache.has(program)) return madeCache.get(program);
  const files = new Map();
  for (const { id, number } of flat(program))
    for (const [file, line] of framesOf(D.ops[id])) {
      if (!files.has(file)) files.set(file, new Map());
      const lines = files.get(file);
      if (!lines.has(line)) lines.set(line, []);
      if (lines.get(line).at(-1) !== number) lines.get(line).push(number);
    }
  madeCache.set(program, files);
  return files;
}
const programNow = () => role()[state.which];
const filesNow = () => [...madeBy(programNow()).keys()].filter((file) => D.listings[file]);
const opsOfLine = (file, line) => madeBy(programNow()).get(file)?.get(line) ?? [];
function chosenFrames() {
  // of the chosen op, the innermost first
  const number = atOn(MY_SIDE);
  return number < 0 ? [] : framesOf(opAt(programNow(), number)).filter(([file]) => D.listings[file]);
}

function lineNode(file, number, text) {
  const made = opsOfLine(file, number).length;
  const fields = { className: made ? "code-line made" : "code-line" };
  if (made) {
    fields.title = `${plural(made, "op")}: click for one after the other`;
    fields.onclick = () => nextOfLine(file, number);
  }
  const node = el(
    "div",
    fields,
    el("span", { className: "no" }, String(number)),
    el("span", { className: "text" }, text || " "),
    made ? el("span", { className: "count" }, String(made)) : "",
  );
  node.dataset.line = number;
  return node;
}
function listFile(file) {
  const key = `${programNow()}:${file}`;
  if (listed === key) return;
  listed = key;
  const nodes = [];
  for (const [first, lines] of D.listings[file] ?? []) {
    if (nodes.length) nodes.push(el("div", { className: "code-gap" }, "⋯"));
    lines.forEach((text, place) => nodes.push(lineNode(file, first + place, text)));
  }
  const empty = "The script's text is not there: it was not found when the page was made.";
  codeText.replaceChildren(...(nodes.length ? nodes : [el("p", { className: "empty" }, empty)]));
}

function renderCode() {
  // the file of the chosen op, with its lines marked
  if (code.hidden) return;
  const files = filesNow(),
    frames = chosenFrames(),
    wanted = state.line?.file ?? frames[0]?.[0] ?? (files.includes(state.file) ? state.file : files[0]);
  state.file = wanted;
  const names = files.map((file) => el("option", { value: String(file) }, base(D.files[file])));
  codeFile.replaceChildren(...names);
  codeFile.value = String(wanted);
  codeFile.title = D.files[wanted] ?? "";
  listFile(wanted);
  const own = state.line?.line ?? frames.find(([file]) => file === wanted)?.[1],
    others = new Set(frames.filter(([file]) => file === wanted).map(([, line]) => line));
  let at = null;
  for (const node of codeText.querySelectorAll(".made")) {
    const line = Number(node.dataset.line);
    node.classList.toggle("at", line === own);
    node.classList.toggle("through", line !== own && others.has(line));
    if (line === own) at = node;
  }
  if (!at) return;
  const top = at.offsetTop - codeText.scrollTop;
  if (top < 0 || top > codeText.clientHeight - 40)
    codeText.scrollTop = at.offsetTop - codeText.clientHeight / 3;
}

function nextOfLine(file, line) {
  // choose the first of a line's ops, or the one behind the chosen one
  const made = opsOfLine(file, line),
    number = made[(made.indexOf(atOn(MY_SIDE)) + 1) % made.length];
  if (number !== undefined) select({ side: MY_SIDE, number }, !drawer.hidden, { file, line });
}
function showLine(file, line) {
  // a frame of a call stack in the listing
  state.line = { file, line };
  if (state.view !== "code") choose({ view: "code" });
  else renderCode();
  together((pane) => pane.mark());
}
codeFile.onchange = () => {
  state.line = null;
  state.at = null;
  state.file = Number(codeFile.value);
  renderCode();
  markAll();
};
