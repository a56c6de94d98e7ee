// What the page knows: the data, what is chosen, and the rows of the comparison. Text from programs only ever becomes text nodes.
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
const ORIGINAL = { name: "original", index: 0, endpoint: "", ...D.original };
const isJob = D.roles.length > 0;
const serverOf = new Map(D.roles.filter((role) => role.kind === "pserver").map((role, index) => [index, role]));
const hue = (index) => (index * 137.5 + 188) % 360;
const colour = (index) => `hsl(${hue(index).toFixed(0)} 48% ${document.documentElement.dataset.theme === "dark" ? 58 : 46}%)`;

const filled = (text, role) => (text.includes("\u0001") || text.includes("\u0002"))
  ? text.replaceAll("\u0001", String(role.index)).replaceAll("\u0002", `'${role.endpoint}'`) : text;
const nameOf = (number, role) => filled(D.names[number], role);

// An op of the pool is [type, category, inputs, outputs, attributes, line]; slots are [slot, [names]].
const [TYPE, CATEGORY, INPUTS, OUTPUTS, ATTRS, LINE] = [0, 1, 2, 3, 4, 5];
const lineOf = (op) => op[LINE] < 0 ? "" : D.lines[op[LINE]];
const shortLine = (op) => lineOf(op).split(" in ")[0].split(/[\\/]/).pop();
const slotNames = (slots) => slots.flatMap(([, names]) => names);
const ioText = (op, role) => {
  const some = (slots) => slotNames(slots).map((name) => nameOf(name, role)).join(", ");
  const out = some(op[OUTPUTS]), into = some(op[INPUTS]);
  return out && into ? `${out}  ←  ${into}` : out || (into && `←  ${into}`);
};

const flatCache = new Map();
const flat = (program) => {             // all ops of a program: {id, block, number}
  if (!flatCache.has(program)) {
    flatCache.set(program, D.programs[program].flatMap(([block, , ops]) => ops.map((id) => ({ id, block }))).map((item, number) => ({ ...item, number })));
  }
  return flatCache.get(program);
};
const matchesOf = (role, which) => {
  const from = typeof role.matches === "number" ? D.roles[role.matches] : role;
  return from.matches[which];
};
const roleKey = (role, which) => `${which}:${role[which]}`;

const compareCache = new Map();
function compare(role, which) {         // rows {kind, left, right}, kinds of the ops of both sides, and counts
  const key = roleKey(role, which);
  if (compareCache.has(key)) return compareCache.get(key);
  const old = flat(ORIGINAL[which]), fresh = flat(role[which]), matches = matchesOf(role, which);
  const oldKind = new Array(old.length).fill("removed"), newKind = [], rows = [];
  matches.forEach((match, index) => {
    newKind[index] = match === 0 ? "inserted" : match > 0 ? "kept" : "changed";
    if (match) oldKind[Math.abs(match) - 1] = newKind[index];
  });
  let taken = 0, furthest = newKind.includes("kept") ? -1 : old.length;   // without a common op the removed ones stand at the end
  const removedUpTo = (end) => {
    for (; taken < end; taken++) if (oldKind[taken] === "removed") rows.push({ kind: "removed", left: old[taken], right: null });
  };
  fresh.forEach((item, index) => {
    const before = matches[index] ? Math.abs(matches[index]) - 1 : -1;
    if (before > furthest) { furthest = before; removedUpTo(before); }
    rows.push({ kind: newKind[index], left: before < 0 ? null : old[before], right: item });
  });
  removedUpTo(old.length);
  const counts = { kept: 0, changed: 0, inserted: 0, removed: 0 };
  rows.forEach((row) => counts[row.kind]++);
  const found = { rows, oldKind, newKind, counts };
  compareCache.set(key, found);
  return found;
}

// ---------------------------------------------------------------- what is chosen
const state = { which: "main", view: "list", role: 0, only: false, param: null, query: "", hits: new Set(), hitNames: null, at: null };
const role = () => isJob ? D.roles[state.role] : ORIGINAL;
const rowsNow = () => isJob ? compare(role(), state.which) : null;

const hayCache = [];
const hay = (id) => hayCache[id] ??= [D.ops[id][TYPE], ...slotNames(D.ops[id][INPUTS]).map((n) => D.names[n]),
  ...slotNames(D.ops[id][OUTPUTS]).map((n) => D.names[n]), lineOf(D.ops[id])].join("\n").replaceAll("\u0001", "").toLowerCase();

// ---------------------------------------------------------------- what belongs to a parameter
const touchCache = new Map();
function touchedBy(param) {             // the set of pool ops that read or write the parameter, its gradient, or a piece of either
  if (touchCache.has(param)) return touchCache.get(param);
  const wanted = new Set([param]);
  D.params.filter(([name]) => name === param).forEach(([, , grad]) => wanted.add(grad));
  for (const [name, grad, piece, gradPiece] of D.slices) if (name === param) [grad, piece, gradPiece].forEach((one) => wanted.add(one));
  for (const name of [...wanted]) {
    wanted.add(`${name}.trainer_\u0001`);
    D.roles.forEach((one) => { if (one.kind === "trainer") wanted.add(`${name}.trainer_${one.index}`); });
  }
  const numbers = new Set(D.names.flatMap((name, number) => wanted.has(name) ? [number] : []));
  const found = new Set();
  D.ops.forEach((op, id) => { if ([...slotNames(op[INPUTS]), ...slotNames(op[OUTPUTS])].some((name) => numbers.has(name))) found.add(id); });
  touchCache.set(param, found);
  return found;
}

function groupsOfRoles(which) {         // roles that share a program, the original first: [{roles, program}]
  const groups = new Map();
  if (isJob) D.roles.forEach((one, index) => {
    const key = one[which];
    if (!groups.has(key)) groups.set(key, { program: key, roles: [], first: index });
    groups.get(key).roles.push(one);
  });
  const first = { program: ORIGINAL[which], roles: [ORIGINAL], first: -1 };
  return [first, ...groups.values()];
}
const groupTitle = (group) => group.roles.length === 1 ? group.roles[0].name + (group.roles[0].endpoint ? ` · ${group.roles[0].endpoint}` : "")
  : `${group.roles[0].name} – ${group.roles.at(-1).name} (${group.roles.length} alike)`;
