// What is shown where, keys, and the address, which holds what is chosen.
const CODE = hasCode ? [["code", "graph + code", "The graph and the script that made it (v)"]] : [];
const VIEWS = isJob
  ? [
      ["job", "job", "The processes and what they exchange (v)"],
      ...(D.endpoints.length ? [["places", "servers", "Which server holds which rows (v)"]] : []),
      ["both", "graph + ops", "One role: its graph and its ops (v)"],
      ...CODE,
      ["graph", "graphs", "The graphs of the original and of a role (v)"],
      ["list", "ops", "What became of each op (v)"],
    ]
  : [
      ["both", "graph + ops", "The graph and the ops (v)"],
      ...CODE,
      ["graph", "graph", "The graph (v)"],
      ["list", "ops", "The ops in order (v)"],
    ];
const WHICH =
  Object.keys(D.original).length > 1
    ? [
        ["main", "main", "What runs every step (m)"],
        ["startup", "startup", "What runs once, first (m)"],
      ]
    : [];

function refresh(fit = false) {
  // everything, from what is chosen
  const view = state.view,
    whole = view === "places" || view === "job",
    pair = view === "graph" && isJob && !state.alone,
    graphs = pair ? ["left", "right"] : view === "list" || whole ? [] : [MY_SIDE],
    second = state.alone ? null : { both: list, code, graph: pair ? panes.right.host : null }[view];
  byId("overview").hidden = view !== "job";
  byId("places").hidden = view !== "places";
  byId("compare").hidden = whole;
  byId("which").hidden = whole || !WHICH.length;
  list.hidden = view === "graph" || view === "code";
  code.hidden = view !== "code";
  byId("page").classList.toggle("two", isJob && view === "list");
  const boxes = [byId("first"), byId("second")];
  boxes[0].replaceChildren(...(graphs.length ? [panes[graphs[0]].host] : [list]));
  boxes[1].replaceChildren(...(second ? [second] : []));
  boxes[1].hidden = byId("splitter").hidden = !boxes[1].firstChild;
  shutter(view);
  heads(view);
  phases(graphs);
  document
    .querySelectorAll(".switch button")
    .forEach((button) =>
      button.setAttribute("aria-pressed", String(state[button.dataset.key] === button.value)),
    );
  if (view === "places") renderPlaces();
  if (view === "job") overview.render();
  split();
  refreshList();
  const fresh = (pane) => pane.program !== pane.owner[state.which] || !pane.drawn;
  redraw(fit || graphsShown().some(fresh));
  renderCode();
  remember();
}
function redraw(fit) {
  together((pane) => {
    pane.program = pane.owner[state.which];
    pane.render();
  });
  if (fit) fitAll();
}
const oneGraph = () => state.view === "both" || state.view === "code" || (isJob && state.alone);
function shutter(view) {
  // the button that closes the second pane, or brings it back
  const names = { both: "ops", code: "code", ...(isJob ? { graph: "two graphs" } : {}) };
  byId("shut").hidden = !names[view];
  byId("shut").textContent = state.alone ? `‹ ${names[view]}` : "✕";
}
const flipAlone = () => {
  state.alone = !state.alone;
  refresh(true);
};
function heads(view) {
  // titles over the panes, and the counts of what differs
  const count = (program) => plural(flat(program).length, "op"),
    right = byId("role-head");
  const original = [
    el("strong", {}, "Original"),
    el("span", { className: "note" }, count(ORIGINAL[state.which])),
  ];
  byId("heads").hidden = !isJob;
  byId("left-head").hidden = oneGraph();
  byId("left-head").replaceChildren(...original);
  right.classList.toggle("alone", oneGraph());
  byId("only").parentElement.hidden = view === "graph";
  if (!isJob) return;
  byId("role").value = String(state.role);
  byId("right-note").textContent =
    count(role()[state.which]) + (role().endpoint ? ` · ${role().endpoint}` : "");
  const { counts } = compare(role(), state.which),
    some = Object.entries(counts).filter(
      ([kind, number]) => number && kind !== "kept" && (kind !== "removed" || !oneGraph()),
    );
  byId("legend").replaceChildren(
    ...(some.length
      ? some.map(([kind, number]) => el("span", {}, el("b", { className: kind }, String(number)), ` ${kind}`))
      : ["the same as the original"]),
  );
}
function phases(graphs) {
  // a box for each phase that one of the graphs has
  const there = PHASES.filter(([phase]) => graphs.some((side) => panes[side].tree.phases.has(phase)));
  byId("phases").hidden = !graphs.length;
  byId("phases").replaceChildren(
    ...(there.length > 1 ? there : []).map(([phase, text]) => {
      const box = el("input", {
        type: "checkbox",
        checked: state.phases.has(phase),
        onchange: () => {
          state.phases[box.checked ? "add" : "delete"](phase);
          refresh(true);
        },
      });
      return el(
        "label",
        { className: "check" },
        box,
        el("i", { className: "dot", style: `background:var(--${phase})` }),
        text,
      );
    }),
    ...(graphs.some((side) => hasCollectives(panes[side].tree.program))
      ? [
          el(
            "span",
            { className: "check", title: "Every rank comes to these ops before any of them goes on" },
            el("i", { className: "dot", style: "background:var(--collective)" }),
            "of all ranks",
          ),
        ]
      : []),
    el(
      "label",
      { className: "check" },
      el("input", {
        type: "checkbox",
        checked: state.params !== false,
        onchange: (event) => {
          state.params = event.target.checked;
          refresh();
        },
      }),
      "parameters",
    ),
  );
}
const hasCollectives = (program) => flat(program).some((item) => D.ops[item.id][CATEGORY] === "collective");
const markAll = () => {
  renderList();
  renderCode();
  together((pane) => pane.drawn && pane.mark());
};

function remember() {
  // the address holds what is chosen
  const hash = new URLSearchParams({
    view: state.view,
    program: state.which,
    ...(isJob ? { role: role().name } : {}),
  });
  const phasesNow = [...state.phases].sort().join(" ");
  if (state.alone) hash.set("panes", "1");
  if (phasesNow !== "forward") hash.set("show", phasesNow);
  if (state.at) hash.set("op", `${state.at.side === "left" && isJob ? "original " : ""}${state.at.number}`);
  if (state.param) hash.set("param", state.param);
  if (state.query) hash.set("q", state.query);
  try {
    history.replaceState(null, "", `#${hash}`);
  } catch {
    /* some viewers have no address to write to */
  }
}
function select(at, open, line = null) {
  // choose an op in every pane; `line` is the one of the listing that led to it
  state.at = at;
  state.line = line;
  if (open) openSelected();
  revealRow();
  renderList();
  together((pane) => pane.reveal());
  besideChosen();
  renderCode();
  phases(graphsShown().map((pane) => pane.side)); // one more of them may be open now
  remember();
}
function choose(changes) {
  Object.assign(state, changes);
  if ("role" in changes || "which" in changes) state.at = state.line = null;
  refresh();
}
function goTo(first, which, number) {
  // to op `number` of the role at `first`, or of the original (-1)
  Object.assign(state, { which, role: first < 0 ? state.role : first });
  if (state.view === "places" || state.view === "job") state.view = "both";
  if (first < 0 && isJob && oneGraph()) state.view = "graph";
  state.at = { side: first < 0 ? "left" : "right", number };
  refresh();
  select(state.at, false);
}

// ---------------------------------------------------------------- the bar
const switches = (id, key, values) =>
  byId(id).replaceChildren(
    ...values.map(([value, text, title]) => {
      const button = el(
        "button",
        {
          value,
          title,
          onclick: () => choose({ [key]: value, ...(key === "view" ? { alone: false } : {}) }),
        },
        text,
      );
      button.dataset.key = key;
      return button;
    }),
  );
switches("which", "which", WHICH);
switches("view", "view", VIEWS);
byId("facts").textContent = D.facts.join(" · ");
byId("role").append(...D.roles.map((one, index) => el("option", { value: String(index) }, one.name)));
byId("role").onchange = (event) => choose({ role: Number(event.target.value) });
const turn = (by) => isJob && choose({ role: (state.role + by + D.roles.length) % D.roles.length });
byId("previous").onclick = () => turn(-1);
byId("next").onclick = () => turn(1);
byId("shut").onclick = flipAlone;
byId("only").onchange = (event) => choose({ only: event.target.checked });

// ---------------------------------------------------------------- the splitter
let share = null; // of the first pane; without a wish the graph has more than the list
const sharedNow = () => share ?? (state.view === "both" ? 0.62 : 0.5);
function split() {
  const two = !byId("second").hidden;
  byId("first").style.flex = two ? `${sharedNow()} 1 0` : "1 1 0";
  byId("second").style.flex = `${1 - sharedNow()} 1 0`;
  byId("splitter").setAttribute("aria-valuenow", String(Math.round(sharedNow() * 100)));
}
function resplit(value) {
  share = Math.min(0.85, Math.max(0.15, value));
  split();
  renderList();
}
byId("splitter").addEventListener("pointerdown", (event) => {
  event.preventDefault();
  const { left, width } = byId("panes").getBoundingClientRect(),
    move = (next) => resplit((next.clientX - left) / width);
  addEventListener("pointermove", move);
  addEventListener(
    "pointerup",
    () => {
      removeEventListener("pointermove", move);
      redraw(true);
    },
    { once: true },
  );
});
byId("splitter").addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -0.04, ArrowRight: 0.04 }[event.key];
  if (!by) return;
  event.preventDefault();
  event.stopPropagation();
  resplit(sharedNow() + by);
  redraw(true);
});
let later = 0;
addEventListener("resize", () => {
  clearTimeout(later);
  later = setTimeout(() => {
    renderList();
    redraw(true);
    if (state.view === "job") overview.render();
  }, 120);
});

// ---------------------------------------------------------------- keys
const KEYS = [
  ["/", "search; ↓ ↑ and Enter go from result to result"],
  ["← ↑ ↓ →", "in the graph: to the next node; Enter opens it, Backspace closes its group"],
  ["PgDn PgUp", "in the graph: node after node, parameters among them"],
  ["j k", "next and previous op; Enter tells more of it"],
  ["n N", "next and previous result"],
  ...(isJob
    ? [
        ["[ ]", "previous and next role"],
        ["d", "differences only"],
      ]
    : []),
  ["b u", "backward pass, update"],
  ["m", "main or startup program"],
  ["v", "next view"],
  ["x", "close or open the second pane"],
  ["+ − 0", "zoom, show all"],
  ["t", "light or dark"],
  ["Esc", "close"],
];
byId("keys").append(
  el("h2", {}, "Keyboard"),
  el(
    "table",
    {},
    ...KEYS.map(([keys, text]) => el("tr", {}, el("td", {}, el("kbd", {}, keys)), el("td", {}, text))),
  ),
);
const COLOURS = [
  ["forward", "forward"],
  ["backward", "backward"],
  ["optimize", "update"],
  ["schedule", "learning rate"],
  ["comm", "exchange"],
  ["collective", "together with all ranks"],
];
byId("keys").append(
  el("h2", { style: "margin-top:16px" }, "Colours of ops"),
  el(
    "div",
    { className: "colours" },
    ...COLOURS.map(([key, text]) =>
      el("span", {}, el("i", { className: "dot", style: `background:var(--${key})` }), text),
    ),
  ),
);
byId("help").onclick = () => byId("keys").showModal();
byId("keys").onclick = () => byId("keys").close();
const setTheme = (theme) => {
  document.documentElement.dataset.theme = theme;
  if (state.view === "places") renderPlaces();
};
byId("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

const zoomBy = (factor) => guide(leading(), (pane) => pane.zoom(factor));
const nextOf = (values, value) => values[(values.findIndex(([one]) => one === value) + 1) % values.length][0];
const flipPhase = (phase) => {
  state.phases[state.phases.has(phase) ? "delete" : "add"](phase);
  refresh(true);
};
const ACTIONS = {
  "/": () => {
    byId("query").focus();
    byId("query").select();
  },
  n: () => nextHit(1),
  N: () => nextHit(-1),
  j: () => step(1),
  k: () => step(-1),
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  Enter: openSelected,
  "[": () => turn(-1),
  "]": () => turn(1),
  b: () => flipPhase("backward"),
  u: () => flipPhase("optimize"),
  m: () => WHICH.length && choose({ which: nextOf(WHICH, state.which) }),
  v: () => choose({ view: nextOf(VIEWS, state.view) }),
  d: () => {
    byId("only").checked = !state.only;
    choose({ only: !state.only });
  },
  "+": () => zoomBy(1.4),
  "-": () => zoomBy(0.7),
  x: () => byId("shut").hidden || flipAlone(),
  0: () => fitAll(true),
  t: () => byId("theme").click(),
  "?": () => byId("help").click(),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    showResults(false);
    if (document.activeElement === byId("query")) document.activeElement.blur();
    closeDrawer();
    return;
  }
  if (event.target.matches("input[type=search]")) return;
  if (event.target.matches("select, input, button") && ["Enter", "ArrowDown", "ArrowUp"].includes(event.key))
    return;
  if (byId("keys").open || !ACTIONS[event.key]) return;
  event.preventDefault();
  ACTIONS[event.key]();
});

// ---------------------------------------------------------------- start
function readAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1)),
    named = D.roles.findIndex((one) => one.name === wanted.get("role"));
  const view = VIEWS.some(([value]) => value === wanted.get("view")) ? wanted.get("view") : state.view;
  Object.assign(state, {
    role: named < 0 ? state.role : named,
    which: D.original[wanted.get("program")] === undefined ? "main" : wanted.get("program"),
    view,
    alone: wanted.get("panes") === "1",
  });
  if (wanted.has("show"))
    state.phases = new Set(
      wanted
        .get("show")
        .split(" ")
        .filter((phase) => phaseTitle[phase]),
    );
  const [, original, number] = /^(original )?(\d+)$/.exec(wanted.get("op") ?? "") ?? [],
    side = original ? "left" : MY_SIDE;
  state.at =
    number !== undefined && flat(ownerOf(side)[state.which])[number]
      ? { side, number: Number(number) }
      : null;
  document.documentElement.dataset.theme =
    wanted.get("theme") ??
    document.documentElement.dataset.theme ??
    (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const param = wanted.get("param"),
    query = wanted.get("q");
  refresh();
  if (state.at) select(state.at, true);
  if (query && query !== state.query) {
    byId("query").value = query;
    search(query);
    showResults(false);
  }
  if (GROUPS.some((group) => group.name === param)) follow(param);
}
addEventListener("hashchange", readAddress);
readAddress();
document.documentElement.dataset.ready = String(Math.round(performance.now()));
