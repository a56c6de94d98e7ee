// Save what is drawn: as SVG with its colours in it, or as PNG.
const SHAPE_STYLE = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "paint-order",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
];
const EDGE = 16;

function standalone({ canvas, scene }) {
  // the text of a file that needs no style of this page, and its size
  const { x, y, width, height } = scene.getBBox();
  const [w, h] = [width, height].map((one) => Math.ceil(one) + 2 * EDGE);
  const made = canvas.cloneNode(true),
    copies = [...made.querySelectorAll("*")];
  [...canvas.querySelectorAll("*")].forEach((element, place) => {
    const copy = copies[place];
    for (const { name } of [...copy.attributes])
      if (/^(class|style|role|tabindex|aria-.*|data-.*)$/.test(name)) copy.removeAttribute(name);
    if (!["rect", "path", "text"].includes(element.tagName)) return;
    const style = getComputedStyle(element);
    for (const name of SHAPE_STYLE)
      if (element.tagName === "text" || !/^(font|text)/.test(name))
        copy.setAttribute(name, style.getPropertyValue(name));
  });
  for (const { name } of [...made.attributes]) made.removeAttribute(name);
  made.querySelector(":scope > g").removeAttribute("transform");
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--sheet");
  const box = { x: Math.floor(x) - EDGE, y: Math.floor(y) - EDGE, width: w, height: h };
  made.prepend(svg("rect", { ...box, fill: paper.trim() }));
  const size = { xmlns: SVG, width: w, height: h, viewBox: `${box.x} ${box.y} ${w} ${h}` };
  for (const [name, value] of Object.entries(size)) made.setAttribute(name, value);
  return { text: new XMLSerializer().serializeToString(made), w, h };
}
function hand(blob, name) {
  // to the reader's folder of downloads
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const fileName = (what, ending) =>
  `${[D.title, what, state.which]
    .filter(Boolean)
    .join("-")
    .replace(/[^\w.-]+/g, "-")}.${ending}`;

function saveSvg(drawing, what) {
  hand(new Blob([standalone(drawing).text], { type: "image/svg+xml" }), fileName(what, "svg"));
}
function savePng(drawing, what) {
  const { text, w, h } = standalone(drawing),
    // two pixels a unit, as far as browsers have room for them
    k = Math.min(2, 8000 / w, 8000 / h, Math.sqrt(4e7 / (w * h)));
  const image = new Image();
  image.onload = () => {
    const canvas = el("canvas", { width: Math.round(w * k), height: Math.round(h * k) });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => hand(blob, fileName(what, "png")));
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
}
