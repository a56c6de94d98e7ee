// What the page knows: the data, what is chosen, and the rows of the comparison. Text from programs only
// ever becomes text nodes.
const D = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const el = (tag, fields = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(fields)) {
    if (key === "style") node.setAttribute("style", value);
    else if (key.startsWith("aria-") || key === "role") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
};
const plural = (number, what) => `${number} ${what}${number === 1 ? "" : "s"}`;
const ORIGINAL = { name: D.roles.length ? "original" : "program", index: 0, endpoint: "", ...D.original };
const isJob = D.roles.length > 0;
const serverOf = new Map(
  D.roles.filter((role) => role.kind === "pserver").map((role, index) => [index, role]),
);
const hue = (index) => (index * 137.5 + 188) % 360;
const colour = (index) =>
  `hsl(${hue(index).toFixed(0)} 48% ${document.documentElement.dataset.theme === "dark" ? 58 : 46}%)`;

// In names and attributes \u0001 stands for the number of a role, \u0002 for its endpoint.
const filled = (text, role) =>
  text.includes("\u0001") || text.includes("\u0002")
    ? text.replaceAll("\u0001", String(role.index)).replaceAll("\u0002", `'${role.endpoint}'`)
    : text;
const nameOf = (number, role) => filled(D.names[number], role);

// An op of the pool is [type, category, inputs, outputs, attributes, stack, pieces]; slots are
// [slot, [names]].
const [TYPE, CATEGORY, INPUTS, OUTPUTS, ATTRS, STACK, PEERS] = [0, 1, 2, 3, 4, 5, 6];
const attrsOf = (op) => op[ATTRS].map((number) => D.attrs[number]);
const slotNames = (slots) => slots.flatMap(([, names]) => names);
const ioText = (op, role) => {
  const some = (slots) =>
    slotNames(slots)
      .map((name) => nameOf(name, role))
      .join(", ");
  const out = some(op[OUTPUTS]),
    into = some(op[INPUTS]);
  return out && into ? `${out}  ←  ${into}` : out || (into && `←  ${into}`);
};

// A stack is [called, [frames]], the innermost first; a frame is [file, line, function, source].
const base = (path) => path.split(/[\\/]/).pop();
const frameText = ([file, line, name]) =>
  `${base(D.files[file])}:${line}${name === "<module>" ? "" : ` in ${name}`}`;
const framesOf = (op) => (op[STACK] < 0 ? [] : D.stacks[op[STACK]][1].map((number) => D.frames[number]));
const shortLine = (op) => {
  const [inner] = framesOf(op);
  return inner ? `${base(D.files[inner[0]])}:${inner[1]}` : "";
};
const stackText = (op) => framesOf(op).map(frameText).join("\n");

const flatCache = new Map();
const flat = (program) => {
  // all ops of a program: {id, block, number}
  if (!flatCache.has(program)) {
    flatCache.set(
      program,
      D.programs[program]
        .flatMap(([block, , ops]) => ops.map((id) => ({ id, block })))
        .map((item, number) => ({ ...item, number })),
    );
  }
  return flatCache.get(program);
};
const opAt = (program, number) => D.ops[flat(program)[number].id];
const varCache = new Map();
const varsOf = (program) => {
  // name -> declaration [name, text, kind, shape, bytes of a number]
  if (!varCache.has(program)) {
    varCache.set(
      program,
      new Map(
        D.programs[program].flatMap(([, , , variables]) =>
          variables.map((id) => [D.vars[id][0], D.vars[id]]),
        ),
      ),
    );
  }
  return varCache.get(program);
};
const [DECLARED, KIND, SHAPE, SIZE] = [1, 2, 3, 4];
const bytesText = (bytes) => {
  for (const [unit, size] of [
    ["GB", 1e9],
    ["MB", 1e6],
    ["kB", 1e3],
  ])
    if (bytes >= size) return `${(bytes / size).toPrecision(3).replace(/\.0+$/, "")} ${unit}`;
  return `${bytes} B`;
};
const bytesOf = (variable) =>
  variable?.[SHAPE]
    ? variable[SHAPE].reduce((product, dim) => product * (dim < 0 ? 1 : dim), variable[SIZE])
    : 0;
const shapeText = (variable) =>
  variable?.[SHAPE] ? variable[SHAPE].map((dim) => (dim < 0 ? "N" : dim)).join("×") || "1" : "";
const sizeText = (variable) => {
  // bytes; of one row where the batch is not known
  if (!variable?.[SHAPE]) return "";
  return bytesText(bytesOf(variable)) + (variable[SHAPE].some((dim) => dim < 0) ? " × N" : "");
};

// ---------------------------------------------------------------- a role's program and the original
const matchesOf = (role, which) => {
  const from = typeof role.matches === "number" ? D.roles[role.matches] : role;
  return from.matches[which];
};
const roleKey = (role, which) => `${which}:${role[which]}`;
const compareCache = new Map();
function compare(role, which) {
  // rows {kind, left, right}, kinds of the ops of both sides, and counts
  const key = roleKey(role, which);
  if (compareCache.has(key)) return compareCache.get(key);
  const old = flat(ORIGINAL[which]),
    fresh = flat(role[which]),
    matches = matchesOf(role, which);
  const oldKind = new Array(old.length).fill("removed"),
    newKind = [],
    rows = [],
    partner = new Map();
  matches.forEach((match, index) => {
    newKind[index] = match === 0 ? "inserted" : match > 0 ? "kept" : "changed";
    if (match) {
      oldKind[Math.abs(match) - 1] = newKind[index];
      if (!partner.has(Math.abs(match) - 1)) partner.set(Math.abs(match) - 1, index);
    }
  });
  let taken = 0,
    // without a common op the removed ones stand at the end
    furthest = newKind.includes("kept") ? -1 : old.length;
  const removedUpTo = (end) => {
    for (; taken < end; taken++)
      if (oldKind[taken] === "removed") rows.push({ kind: "removed", left: old[taken], right: null });
  };
  fresh.forEach((item, index) => {
    const before = matches[index] ? Math.abs(matches[index]) - 1 : -1;
    if (before > furthest) {
      furthest = before;
      removedUpTo(before);
    }
    rows.push({ kind: newKind[index], left: before < 0 ? null : old[before], right: item });
  });
  removedUpTo(old.length);
  const counts = { kept: 0, changed: 0, inserted: 0, removed: 0 };
  rows.forEach((row) => counts[row.kind]++);
  const found = { rows, oldKind, newKind, counts, partner };
  compareCache.set(key, found);
  return found;
}

// ---------------------------------------------------------------- what is chosen
// `at` is the chosen op: {side, number}, side "left" for the original's and "right" for the role's
const state = {
  which: "main",
  view: isJob ? "job" : "both",
  alone: false, // the second pane is closed
  role: 0,
  only: false,
  param: null,
  query: "",
  hits: new Set(),
  at: null,
  line: null, // of the listing: {file, line}, where a line was chosen and not an op
  file: -1,
  phases: new Set(["forward"]),
  open: new Set(),
  closed: new Set(),
};
const role = () => (isJob ? D.roles[state.role] : ORIGINAL);
const rowsNow = () => (isJob ? compare(role(), state.which) : null);
const ownerOf = (side) => (side === "left" ? ORIGINAL : role());
const MY_SIDE = isJob ? "right" : "left";
const atOn = (side) => (state.at ? numberOn(side, state.at) : -1);
function numberOn(side, at) {
  // the number of an op on a side: itself, or what it was or became
  if (at.side === side) return at.number;
  if (!isJob) return -1;
  const { partner } = compare(role(), state.which),
    match = side === "left" ? matchesOf(role(), state.which)[at.number] : 0;
  return side === "left" ? (match ? Math.abs(match) - 1 : -1) : (partner.get(at.number) ?? -1);
}

// ---------------------------------------------------------------- what belongs to a parameter
const touchCache = new Map();
function touchedBy(param) {
  // the set of pool ops that read or write the parameter, its gradient, or a piece of either
  if (touchCache.has(param)) return touchCache.get(param);
  const wanted = new Set([param]);
  D.params.filter(([name]) => name === param).forEach(([, , grad]) => wanted.add(grad));
  for (const [name, grad, piece, gradPiece] of D.slices)
    if (name === param) [grad, piece, gradPiece].forEach((one) => wanted.add(one));
  for (const name of [...wanted]) {
    wanted.add(`${name}.trainer_\u0001`);
    D.roles.forEach((one) => {
      if (one.kind === "trainer") wanted.add(`${name}.trainer_${one.index}`);
    });
  }
  const numbers = new Set(D.names.flatMap((name, number) => (wanted.has(name) ? [number] : [])));
  const found = new Set();
  D.ops.forEach((op, id) => {
    if ([...slotNames(op[INPUTS]), ...slotNames(op[OUTPUTS])].some((name) => numbers.has(name)))
      found.add(id);
  });
  touchCache.set(param, found);
  return found;
}
function groupsOfRoles(which) {
  // roles that share a program, the original first: [{roles, program}]
  const groups = new Map();
  if (isJob)
    D.roles.forEach((one, index) => {
      const key = one[which];
      if (!groups.has(key)) groups.set(key, { program: key, roles: [], first: index });
      groups.get(key).roles.push(one);
    });
  const first = { program: ORIGINAL[which], roles: [ORIGINAL], first: -1 };
  return [first, ...groups.values()];
}
const groupTitle = (group) =>
  group.roles.length === 1
    ? group.roles[0].name + (group.roles[0].endpoint ? ` · ${group.roles[0].endpoint}` : "")
    : `${group.roles[0].name} – ${group.roles.at(-1).name} (${group.roles.length} alike)`;
