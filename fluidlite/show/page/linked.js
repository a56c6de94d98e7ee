// The graphs of a job move as one: what is looked at in one of them lies at the same place in the other.
const panes = { left: new GraphPane("left"), right: new GraphPane("right") };
const graphsShown = () => Object.values(panes).filter((pane) => pane.host.isConnected);
const together = (act) => graphsShown().forEach(act);
const leading = () =>
  graphsShown().find((pane) => pane.host.contains(document.activeElement)) ?? panes[MY_SIDE];
const middleOf = (box) => [box.x + box.w / 2, box.y + Math.min(box.h, 200) / 2];

function twinOf(lead, other, box) {
  // the box of the same op, or of the group that it is folded into, in the other graph
  for (const number of box.node.ops ?? []) {
    const there = numberOn(other.side, { side: lead.side, number }),
      twin = there < 0 ? null : other.boxOf.get(representative(other.tree, there)?.id);
    if (twin) return twin;
  }
  return null;
}
function bondAt(lead, x = lead.host.clientWidth / 2, y = lead.host.clientHeight / 2) {
  // two places that belong together: where the box nearest to (x, y) of the window lies in both graphs
  const other = graphsShown().find((pane) => pane !== lead);
  if (!other?.drawn || !lead.drawn) return null;
  const at = [(x - lead.view.x) / lead.view.k, (y - lead.view.y) / lead.view.k];
  const near = (box) => Math.hypot(middleOf(box)[0] - at[0], middleOf(box)[1] - at[1]);
  const boxes = [...lead.boxOf.values()].filter((box) => !box.open && box.node.ops);
  for (const box of boxes.sort((a, b) => near(a) - near(b))) {
    const twin = twinOf(lead, other, box);
    if (twin) return { other, here: middleOf(box), there: middleOf(twin) };
  }
  const middle = ({ drawn }) => [drawn.width / 2, drawn.height / 2];
  return { other, here: middle(lead), there: middle(other) };
}
function pull(lead, bond) {
  if (!bond) return;
  const { x, y, k } = lead.view,
    { other, here, there } = bond;
  other.view = { k, x: x + (here[0] - there[0]) * k, y: y + (here[1] - there[1]) * k };
  other.apply();
}
function guide(pane, act, x, y) {
  // move a pane, and the other one with it: what is at (x, y) stays beside its twin
  const bond = bondAt(pane, x, y);
  act(pane);
  pull(pane, bond);
}
const beside = (pane) => pull(pane, bondAt(pane));
function besideChosen() {
  // the chosen op lies at the same place in both graphs
  const pane = panes[state.at?.side] ?? panes[MY_SIDE],
    box = pane.boxOf?.get(representative(pane.tree, atOn(pane.side))?.id);
  if (!pane.host.isConnected || !box) return;
  const [x, y] = middleOf(box);
  pull(pane, bondAt(pane, pane.view.x + x * pane.view.k, pane.view.y + y * pane.view.k));
}
function fitAll(whole = false) {
  // both graphs in one scale: the whole of them, or what can be read
  const shown = graphsShown().filter((pane) => pane.drawn),
    scale = Math.min(...shown.map((pane) => pane.fitting(whole)));
  shown.forEach((pane) => pane.fit(scale, whole));
}
