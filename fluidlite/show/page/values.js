// The values of a saved model's weights: their range, and how they spread over it.
const [BARS_W, BARS_H] = [300, 84];
const short = (number) => String(Number(number.toPrecision(3)));
function valuesOf(name) {
  const facts = Object.hasOwn(D.values, name) ? D.values[name] : null;
  if (!facts) return [];
  const share = (count) => `${count} (${short((100 * count) / facts.count)} %)`;
  const rows = [
    ["numbers", facts.count],
    ...["low", "high", "mean", "std"]
      .filter((key) => facts[key] != null)
      .map((key) => [key, short(facts[key])]),
    ["zeros", share(facts.zeros)],
    ...(facts.bad ? [["NaN or infinite", share(facts.bad)]] : []),
  ];
  return [
    el("h3", {}, "Values"),
    facts.bins ? bars(facts) : "",
    el(
      "table",
      {},
      ...rows.map(([key, text]) => el("tr", {}, el("td", {}, key), el("td", {}, String(text)))),
    ),
  ];
}
function bars({ bins, low, high }) {
  const most = Math.max(...bins),
    w = BARS_W / bins.length,
    edge = (place) => short(low + ((high - low) * place) / bins.length);
  return svg(
    "svg",
    { class: "bars", viewBox: `0 0 ${BARS_W} ${BARS_H}`, role: "img", "aria-label": "Histogram" },
    ...bins.map((count, place) => {
      const h = (count / most) * (BARS_H - 2);
      return svg(
        "rect",
        { x: place * w + 0.5, y: BARS_H - h, width: w - 1, height: h },
        svg("title", {}, `${count} from ${edge(place)} to ${edge(place + 1)}`),
      );
    }),
  );
}
