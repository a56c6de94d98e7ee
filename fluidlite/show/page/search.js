// Search: words in any order over op types, variables, functions and lines of every program.
const hayCache = [];
const hay = (id) => {
  const op = D.ops[id],
    names = [...slotNames(op[INPUTS]), ...slotNames(op[OUTPUTS])].map((number) => D.names[number]),
    scope = attrsOf(op).find(([name]) => name === "op_namescope");
  return (hayCache[id] ??= [
    op[TYPE],
    ...names,
    stackText(op),
    scope?.[1] ?? "",
    op[STACK] < 0 ? "" : D.stacks[op[STACK]][0],
  ]
    .join("\n")
    .replaceAll("\u0001", "")
    .toLowerCase());
};
const SHOWN_OF_EACH = 7,
  MOST_SHOWN = 240;
let found = [],
  foundAt = -1;

function search(text) {
  state.query = text.trim();
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  state.hits = new Set(
    words.length ? D.ops.flatMap((_, id) => (words.every((word) => hay(id).includes(word)) ? [id] : [])) : [],
  );
  found = [];
  foundAt = -1;
  const nodes = [];
  for (const which of Object.keys(D.original))
    for (const group of words.length ? groupsOfRoles(which) : []) {
      const items = flat(group.program).filter((item) => state.hits.has(item.id));
      if (!items.length) continue;
      const title =
        isJob || Object.keys(D.original).length > 1
          ? `${isJob ? groupTitle(group) : "program"} · ${which} · `
          : "";
      nodes.push(el("div", { className: "group" }, `${title}${plural(items.length, "op")}`));
      for (const [place, item] of items.entries()) {
        const at = found.push({ first: group.first, which, number: item.number }) - 1;
        if (nodes.length > MOST_SHOWN || (place >= SHOWN_OF_EACH && items.length > SHOWN_OF_EACH + 1))
          continue;
        const button = jump(item, group.roles[0], which, group.first);
        Object.assign(button, { tabIndex: -1, id: `result-${at}` });
        button.setAttribute("role", "option");
        button.addEventListener("click", () => {
          foundAt = at;
          showResults(false);
        });
        nodes.push(button);
      }
      if (items.length > SHOWN_OF_EACH + 1)
        nodes.push(el("div", { className: "group" }, `and ${items.length - SHOWN_OF_EACH} more: ↓ goes on`));
    }
  byId("results").replaceChildren(
    ...(nodes.length
      ? nodes
      : [
          el(
            "div",
            { className: "group" },
            "Nothing found. Words may stand in any order: conv2d grad, fc_0.w_0, train.py:26",
          ),
        ]),
  );
  byId("found").textContent = words.length ? plural(found.length, "result") : "";
  showResults(words.length > 0);
  markAll();
  remember();
}
function showResults(open) {
  byId("results").hidden = !open;
  byId("query").setAttribute("aria-expanded", String(open));
}
function nextHit(by) {
  // the next or previous result, shown in both panes; the search keeps the focus
  if (!found.length) return;
  foundAt = foundAt < 0 && by < 0 ? found.length - 1 : (foundAt + by + found.length) % found.length;
  const hit = found[foundAt],
    focused = document.activeElement;
  goTo(hit.first, hit.which, hit.number);
  byId("found").textContent = `${foundAt + 1} of ${found.length}`;
  byId("results")
    .querySelectorAll("button")
    .forEach((button) => {
      const at = button.id === `result-${foundAt}`;
      button.classList.toggle("at", at);
      button.setAttribute("aria-selected", String(at));
      if (at) button.scrollIntoView({ block: "nearest" });
    });
  byId("query").setAttribute("aria-activedescendant", `result-${foundAt}`);
  if (focused === byId("query")) byId("query").focus();
}
byId("query").oninput = (event) => search(event.target.value);
byId("query").onfocus = () => showResults(state.query !== "");
byId("query").onkeydown = (event) => {
  const by = { ArrowDown: 1, ArrowUp: -1, Enter: event.shiftKey ? -1 : 1 }[event.key];
  if (!by) return;
  event.preventDefault();
  nextHit(by);
  if (event.key === "Enter") showResults(false);
};
document.addEventListener("pointerdown", (event) => {
  if (!event.target.closest(".search")) showResults(false);
});
