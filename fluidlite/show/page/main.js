// Wiring: switches, search, keys, and the address, which remembers what is shown.
function refresh() {
  renderPlaces();
  const counts = isJob ? rowsNow().counts : null;
  byId("legend").replaceChildren(...(counts ? Object.entries(counts).map(([kind, count]) => el("span", {}, el("b", { className: kind }, String(count)), ` ${kind}`)) : []));
  const count = (program) => { const ops = flat(program).length, blocks = D.programs[program].length; return `${ops} ops${blocks > 1 ? ` in ${blocks} blocks` : ""}`; };
  byId("left-note").textContent = count(ORIGINAL[state.which]);
  if (isJob) { byId("role").value = String(state.role); byId("right-note").textContent = count(role()[state.which]) + (role().endpoint ? ` · ${role().endpoint}` : ""); }
  document.querySelectorAll(".switch button").forEach((button) => button.setAttribute("aria-pressed", String(state[button.dataset.key] === button.value)));
  list.hidden = state.view !== "list";
  byId("graphs").hidden = state.view !== "graph";
  if (state.view === "list") refreshList(); else refreshGraphs();
  const hash = new URLSearchParams({ role: role().name, program: state.which, view: state.view });
  if (state.param) hash.set("param", state.param);
  if (state.query) hash.set("q", state.query);
  try { history.replaceState(null, "", `#${hash}`); } catch { /* some viewers have no address to write to */ }
}
function choose(changes) {
  Object.assign(state, changes, { at: null });
  refresh();
}
function goTo(first, which, number) {   // to op `number` of the role at `first`, or of the original (-1)
  Object.assign(state, { which, role: first < 0 ? state.role : first, at: { side: first < 0 ? "left" : "right", number } });
  refresh();
  if (state.view === "list") reveal(state.at);
}

const switches = (id, key, values) => byId(id).replaceChildren(...values.map(([value, text, title]) => {
  const button = el("button", { value, title, onclick: () => choose({ [key]: value }) }, text);
  button.dataset.key = key;
  return button;
}));
const programs = Object.keys(D.original).length > 1 ? [["main", "main", "What runs every step (m)"], ["startup", "startup", "What runs once, first (m)"]] : [["main", "main", ""]];
switches("which", "which", programs);
switches("view", "view", [["list", "list", "Ops in order (g)"], ["graph", "graph", "Ops as a graph (g)"]]);
byId("facts").textContent = D.facts.join(" · ");
byId("page").classList.toggle("single", !isJob);
byId("role").append(...D.roles.map((one, index) => el("option", { value: String(index) }, one.name)));
byId("role").onchange = (event) => choose({ role: Number(event.target.value) });
const turn = (by) => isJob && choose({ role: (state.role + by + D.roles.length) % D.roles.length });
byId("previous").onclick = () => turn(-1);
byId("next").onclick = () => turn(1);
byId("only").onchange = (event) => choose({ only: event.target.checked });

// ---------------------------------------------------------------- search
let found = [], foundAt = -1;
function search(text) {
  state.query = text.trim();
  const query = state.query.toLowerCase();
  state.hits = new Set(query ? D.ops.flatMap((_, id) => hay(id).includes(query) ? [id] : []) : []);
  found = [];
  const nodes = [];
  for (const which of Object.keys(D.original)) for (const group of query ? groupsOfRoles(which) : []) {
    const items = flat(group.program).filter((item) => state.hits.has(item.id));
    if (!items.length) continue;
    nodes.push(el("div", { className: "group" }, `${groupTitle(group)} · ${which} · ${items.length} op${items.length > 1 ? "s" : ""}`));
    for (const item of items) {
      const at = found.push({ first: group.first, which, number: item.number }) - 1;
      if (nodes.length > 240 || (at && items.indexOf(item) >= 6)) continue;
      const button = jump(item, group.roles[0], which, group.first);
      button.dataset.at = at;
      button.addEventListener("click", () => { foundAt = at; byId("results").hidden = true; });
      nodes.push(button);
    }
  }
  foundAt = -1;
  byId("results").replaceChildren(...(nodes.length ? nodes : [el("div", { className: "group" }, "Nothing found.")]));
  byId("results").hidden = !query;
  if (state.view === "list") renderList(); else refreshGraphs();
}
function nextHit(by) {
  if (!found.length) return;
  foundAt = (foundAt + by + found.length) % found.length;
  const hit = found[foundAt];
  goTo(hit.first, hit.which, hit.number);
  byId("results").querySelectorAll("button").forEach((button) => button.classList.toggle("at", button.dataset.at === String(foundAt)));
}
byId("query").oninput = (event) => search(event.target.value);
byId("query").onfocus = () => { byId("results").hidden = !state.query; };
document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".search")) byId("results").hidden = true; });

// ---------------------------------------------------------------- keys
const KEYS = [["/", "search; Enter, n and N go from hit to hit"], ["j k ↓ ↑", "next and previous op; Enter opens it"], ["[ ]", "previous and next role"],
  ["m", "main or startup program"], ["g", "graph or list"], ["d", "differences only"], ["+ − 0", "zoom the graphs, show them whole"], ["t", "light or dark"], ["Esc", "close"]];
byId("keys").append(el("h2", {}, "Keyboard"), el("table", {}, ...KEYS.map(([keys, text]) => el("tr", {}, el("td", {}, el("kbd", {}, keys)), el("td", {}, text)))));
const COLOURS = [["forward", "forward"], ["backward", "backward"], ["optimize", "update"], ["schedule", "learning rate"], ["comm", "communication"]];
byId("keys").append(el("h2", { style: "margin-top:16px" }, "Colours of ops"), el("div", { className: "colours" }, ...COLOURS.map(([key, text]) =>
  el("span", {}, el("i", { className: "dot", style: `background:var(--${key})` }), text))));
byId("help").onclick = () => byId("keys").showModal();
byId("keys").onclick = () => byId("keys").close();
const setTheme = (theme) => { document.documentElement.dataset.theme = theme; renderPlaces(); };
byId("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

const flip = (key, a, b) => choose({ [key]: state[key] === a ? b : a });
const ACTIONS = {
  "/": () => { byId("query").focus(); byId("query").select(); }, n: () => nextHit(1), N: () => nextHit(-1), j: () => step(1), k: () => step(-1),
  ArrowDown: () => step(1), ArrowUp: () => step(-1), Enter: openSelected, "[": () => turn(-1), "]": () => turn(1),
  m: () => programs.length > 1 && flip("which", "main", "startup"), g: () => flip("view", "list", "graph"),
  d: () => { byId("only").checked = !state.only; choose({ only: !state.only }); }, "+": () => graphs.forEach((one) => one.zoom(1.4)), "-": () => graphs.forEach((one) => one.zoom(0.7)),
  0: () => graphs.forEach((one) => one.fit()), t: () => byId("theme").click(), "?": () => byId("help").click(),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { byId("results").hidden = true; document.activeElement.blur(); closeDrawer(); return; }
  if (event.target.matches("input[type=search]")) { if (event.key === "Enter") nextHit(event.shiftKey ? -1 : 1); return; }
  if (event.target.matches("select, input, button") && ["Enter", "ArrowDown", "ArrowUp"].includes(event.key)) return;
  if (byId("keys").open || !ACTIONS[event.key]) return;
  event.preventDefault();
  ACTIONS[event.key]();
});

// ---------------------------------------------------------------- start
const wanted = new URLSearchParams(location.hash.slice(1));
document.documentElement.dataset.theme = wanted.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
const named = D.roles.findIndex((one) => one.name === wanted.get("role"));
Object.assign(state, { role: Math.max(0, named), which: D.original[wanted.get("program")] === undefined ? "main" : wanted.get("program"), view: wanted.get("view") === "graph" ? "graph" : "list" });
refresh();
if (wanted.get("q")) { byId("query").value = wanted.get("q"); search(wanted.get("q")); byId("results").hidden = true; }
if (GROUPS.some((group) => group.name === wanted.get("param"))) follow(wanted.get("param"));
