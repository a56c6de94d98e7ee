// Every text whose contrast with what lies behind it is below 4.5: [text, contrast].
const luminance = ([r, g, b]) =>
  [r, g, b]
    .map((one) => one / 255)
    .map((one) => (one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
    .reduce((sum, one, index) => sum + one * [0.2126, 0.7152, 0.0722][index], 0);
const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", {
  willReadFrequently: true,
});
const colour = (text) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = text;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], below) => [r, g, b].map((one, index) => one * a + below[index] * (1 - a));
function behind(element, x, y) {
  // the colour under a point of an element, as it is drawn
  const layers = document.elementsFromPoint(x, y),
    found = [];
  for (const one of layers.slice(Math.max(0, layers.indexOf(element)))) {
    const style = getComputedStyle(one),
      shape = one instanceof SVGElement;
    if (shape && !["rect", "circle"].includes(one.tagName)) continue;
    const text = shape ? style.fill : style.backgroundColor;
    if (text === "none") continue;
    const made = colour(text);
    if (shape) made[3] *= Number(style.fillOpacity) * Number(style.opacity);
    if (made[3]) found.push(made);
    if (made[3] === 1) break;
  }
  return found.reverse().reduce((below, one) => over(one, below), [255, 255, 255]);
}
let seen = 0;
const poor = [],
  walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (
    !walker.currentNode.textContent.trim() ||
    element.closest("script, title, noscript, option, dialog:not([open])")
  )
    continue;
  const box = element.getBoundingClientRect(),
    x = box.left + Math.min(box.width / 2, 12),
    y = box.top + box.height / 2;
  if (!box.width || x < 0 || y < 0 || x > innerWidth || y > innerHeight) continue;
  const layers = document.elementsFromPoint(x, y),
    style = getComputedStyle(element);
  const through = style.pointerEvents === "none";
  if (through ? !element.ownerSVGElement?.contains(layers[0]) : !layers.includes(element)) continue; // something lies over it
  const front = colour(element instanceof SVGElement ? style.fill : style.color),
    back = behind(through ? layers[0] : element, x, y);
  const [one, other] = [luminance(over(front, back)), luminance(back)].sort((a, b) => b - a),
    contrast = (one + 0.05) / (other + 0.05);
  seen++;
  if (contrast < 4.5)
    poor.push([
      walker.currentNode.textContent.trim().slice(0, 40),
      Number(contrast.toFixed(2)),
      element.className?.baseVal ?? element.className,
    ]);
}
return [seen, poor];
