// A program as groups that open: its nodes, and the values that flow between them.
const PHASES = [
  ["forward", "forward", "forward pass"],
  ["backward", "backward", "backward pass"],
  ["optimize", "update", "update"],
  ["comm", "exchange", "exchange between processes"],
];
const phaseTitle = Object.fromEntries(PHASES.map(([key, , title]) => [key, title]));
const OP_KIND = "op";
const MANY = 16,
  SPARSE = 9,
  SMALL = 5; // nodes that a graph begins with, and fewer; ops of a group that is opened last

const foldedCache = new Map();
// {phases: Map phase -> node, nodeOfOp, flows}; a node is {id, label, kind, frame, op, children, parent, ops}
function folded(program) {
  if (foldedCache.has(program)) return foldedCache.get(program);
  const ofOp = new Map(),
    inner = new Map(),
    phases = new Map(),
    nodes = new Map();
  const make = (tree, id, parent) => {
    const group = Array.isArray(tree);
    const node = {
      id,
      parent,
      label: group ? tree[0] : opAt(program, tree)[TYPE],
      kind: group ? tree[1] : OP_KIND,
      frame: group ? tree[2] : -1,
      op: group ? tree[3] : tree,
      ops: [],
    };
    nodes.set(id, node);
    node.children = group ? tree[4].map((child, place) => make(child, `${id}.${place}`, node)) : [];
    if (node.op >= 0) {
      ofOp.set(node.op, node);
      node.ops.push(node.op);
    }
    for (const child of node.children) node.ops.push(...child.ops);
    if (group && node.op >= 0) inner.set(node.op, own(node));
    return node;
  };
  for (const [phase] of PHASES) {
    const trees = D.trees[program][phase];
    if (trees) phases.set(phase, make([phaseTitle[phase], "phase", -1, -1, trees], phase, null));
  }
  const found = { program, phases, ofOp, nodes, flows: flowsOf(program, inner) };
  found.starts = startsOpen(found);
  foldedCache.set(program, found);
  return found;
}
// the ops of an op's own blocks, without those of blocks within
const own = (node) => node.children.flatMap((child) => (child.op >= 0 ? [child.op] : own(child)));

function flowsOf(program, inner) {
  // [from op or -1, to op, name] for each value that is read
  const flows = [];
  const find = (scope, name) => (scope ? (scope.at.get(name) ?? find(scope.outer, name)) : -1);
  const walk = (numbers, scope) => {
    for (const number of [...numbers].sort((a, b) => a - b)) {
      const op = opAt(program, number),
        below = { at: new Map(), outer: scope };
      for (const name of new Set(slotNames(op[INPUTS]))) flows.push([find(scope, name), number, name]);
      if (inner.has(number)) walk(inner.get(number), below);
      for (const name of slotNames(op[OUTPUTS])) scope.at.set(name, below.at.get(name) ?? number);
    }
  };
  walk(
    flat(program)
      .filter((item) => item.block === 0)
      .map((item) => item.number),
    { at: new Map(), outer: null },
  );
  return flows;
}

function startsOpen({ phases }) {
  // groups that are open at first: as many as can be read, the outermost first
  const open = new Set();
  for (const phase of phases.values()) {
    open.add(phase.id);
    let count = phase.children.length;
    // large groups first; what a layer is made of only where little is to be seen
    const passes = [
      (node) => node.ops.length > SMALL && node.kind !== "repeat",
      (node) => node.kind !== "repeat" && node.kind !== "layer",
      (node) => node.kind !== "repeat",
      () => true,
    ];
    for (const [number, may] of passes.entries()) {
      for (
        let level = phase.children;
        level.length;
        level = level.filter((node) => open.has(node.id)).flatMap((node) => node.children)
      ) {
        for (const node of level) {
          const more = node.children.length - 1;
          if (
            more < 0 ||
            open.has(node.id) ||
            !may(node) ||
            (node.kind === "repeat" && count > 2) ||
            count + more > MANY ||
            (number && count > SPARSE && phase.ops.length > MANY)
          )
            continue;
          open.add(node.id);
          count += more;
        }
      }
    }
  }
  return open;
}
const isOpen = (tree, node) =>
  node.children.length > 0 &&
  !state.closed.has(node.id) &&
  (state.open.has(node.id) || tree.starts.has(node.id));
function setOpen(node, open) {
  (open ? state.open : state.closed).add(node.id);
  (open ? state.closed : state.open).delete(node.id);
}
function phasesShown(tree) {
  // the chosen phases, or all there are where none of them has an op
  const chosen = [...tree.phases.values()].filter((phase) => state.phases.has(phase.id));
  return chosen.length ? chosen : [...tree.phases.values()];
}
function representative(tree, number) {
  // the node that stands for an op: itself, or the outermost closed group around it
  let node = tree.ofOp.get(number),
    shown = node;
  for (; node; node = node.parent) if (node.children.length && !isOpen(tree, node)) shown = node;
  return shown;
}
function unfoldTo(tree, number) {
  const node = tree.ofOp.get(number);
  for (let outer = node?.parent; outer; outer = outer.parent) {
    if (!isOpen(tree, outer)) setOpen(outer, true);
    if (!outer.parent) state.phases.add(outer.id);
  }
}

// ---------------------------------------------------------------- what stands on a node
const paramsOf = (tree, node) => {
  // variables of a kind that the node's ops read: parameters and what else is kept
  const variables = varsOf(tree.program),
    found = new Map();
  for (const number of node.ops)
    for (const name of slotNames(opAt(tree.program, number)[INPUTS])) {
      const variable = variables.get(name);
      // holders of what is fed and fetched have no shape, and are no values of the network
      if (variable?.[SHAPE] && (variable[KIND] === "parameter" || variable[KIND] === "state"))
        found.set(name, variable);
    }
  return [...found.values()];
};
const labelOf = (node) => (node.kind === "repeat" ? `${node.label} × ${node.children.length}` : node.label);
function subOf(tree, node, owner) {
  if (node.kind === OP_KIND) {
    const op = opAt(tree.program, node.op),
      [out] = slotNames(op[OUTPUTS]),
      [into] = slotNames(op[INPUTS]);
    if (op[TYPE] === "fetch") return `← ${nameOf(into, owner)}`;
    return out !== undefined ? nameOf(out, owner) : into !== undefined ? `← ${nameOf(into, owner)}` : "";
  }
  const params = paramsOf(tree, node).filter((one) => one[KIND] === "parameter"),
    bytes = params.reduce((sum, one) => sum + bytesOf(one), 0);
  return (
    plural(node.ops.length, "op") +
    (params.length ? ` · ${plural(params.length, "param")} ${bytesText(bytes)}` : "")
  );
}
