// Which server holds which rows.
const FEW = 8;
const opened = new Set();
const rowsText = (first, shape) =>
  (shape[0] ?? 1) === 1 ? String(first) : `${first} – ${first + shape[0] - 1}`;
const allNote = (group) => (group.slices.length > 1 ? "" : el("span", { className: "note" }, "  all"));
const grouped = () => {
  const groups = new Map(D.params.map(([name, shape]) => [name, { name, shape, slices: [] }]));
  for (const [name, , , , first, shape, server] of D.slices) {
    if (!groups.has(name)) groups.set(name, { name, shape: null, slices: [] });
    groups.get(name).slices.push({ first, shape, server });
  }
  groups.forEach((group) => group.slices.sort((a, b) => a.first - b.first));
  return [...groups.values()];
};
const GROUPS = grouped();
const paramButton = (name) =>
  el("button", { className: "name", title: "Follow this parameter", onclick: () => follow(name) }, name);
const serverCell = (index) => {
  const one = serverOf.get(index);
  return el(
    "button",
    {
      className: "server",
      title: "Show this server's program",
      onclick: () =>
        choose({ role: D.roles.indexOf(one), view: state.view === "places" ? "both" : state.view }),
    },
    el("i", { className: "swatch", style: `background:${colour(index)}` }),
    `${one.endpoint}`,
    el("span", { className: "note" }, one.name),
  );
};
const track = (group, index) =>
  el(
    "div",
    { className: "track", title: `${group.slices.length} slice${group.slices.length > 1 ? "s" : ""}` },
    ...group.slices.map((slice, at) =>
      el("i", {
        className: index === null || at === index ? "mine" : "",
        style: `flex:${slice.shape[0] ?? 1};background:${colour(slice.server)}`,
      }),
    ),
  );

function placeRows(group) {
  const few =
    group.slices.length > FEW + 2 && !opened.has(group.name) ? group.slices.slice(0, FEW) : group.slices;
  const shapeText = group.shape ? `[${group.shape.join(", ")}]` : "";
  const at = state.param === group.name ? " at" : "";
  if (!few.length) {
    const where = D.endpoints.length ? "on no server (not trained)" : "on every trainer, whole";
    return [
      el(
        "tr",
        { className: `first${at}` },
        el("td", {}, paramButton(group.name)),
        el("td", { className: "mono" }, shapeText),
        el("td", {}, group.shape ? rowsText(0, group.shape) : "", el("span", { className: "note" }, "  all")),
        el("td", { className: "note" }, where),
        el("td", { className: "wide" }),
      ),
    ];
  }
  const rows = few.map((slice, index) =>
    el(
      "tr",
      { className: (index ? "" : "first") + at },
      el("td", {}, index ? "" : paramButton(group.name)),
      el("td", { className: "mono" }, index ? "" : shapeText),
      el("td", {}, rowsText(slice.first, slice.shape), allNote(group)),
      el("td", {}, serverCell(slice.server)),
      el("td", { className: "wide" }, few.length > 40 ? "" : track(group, index)),
    ),
  );
  if (few.length < group.slices.length) {
    const more = el(
      "button",
      {
        className: "more",
        onclick: () => {
          opened.add(group.name);
          renderPlaces();
        },
      },
      `… ${group.slices.length - few.length} more slices`,
    );
    rows.push(
      el(
        "tr",
        { className: at },
        el("td"),
        el("td"),
        el("td", {}, more),
        el("td"),
        el("td", { className: "wide" }, track(group, null)),
      ),
    );
  }
  return rows;
}

const SOME = 300;
let tableRows = SOME;
function renderPlaces() {
  byId("places-note").textContent = D.endpoints.length
    ? "Rows are counted from 0, both ends included. Click a parameter to follow it through every process."
    : "This mode has no servers: every trainer holds every parameter. Click one to follow it.";
  const heads = [
    "parameter",
    "shape",
    "rows",
    D.endpoints.length ? "server" : "held by",
    D.endpoints.length ? "share of the parameter" : "",
  ];
  byId("places-table").tHead.replaceChildren(
    el("tr", {}, ...heads.map((head, index) => el("th", { className: index === 4 ? "wide" : "" }, head))),
  );
  const rows = [];
  for (const group of GROUPS) {
    if (rows.length >= tableRows) break;
    rows.push(...placeRows(group));
  }
  if (rows.length >= tableRows) {
    rows.push(
      el(
        "tr",
        {},
        el(
          "td",
          {},
          el(
            "button",
            {
              className: "more",
              onclick: () => {
                tableRows *= 4;
                renderPlaces();
              },
            },
            "show more parameters …",
          ),
        ),
      ),
    );
  }
  byId("places-table").tBodies[0].replaceChildren(...rows);
}
