// What a page does where scripts run; without them it is the same page, whose pictures stand still.
// A scan's picture tells of the variant beside the pointer and is drawn again for a part of the genome. Every picture is saved as PNG, too.
"use strict";

const NEAR = 14; // pixels from a point within which the pointer means it
const [NAMES, NAMED] = [8, 5]; // points of a part that are named at most, and the -log10 p from which they are
const LETTER = 6.6; // pixels that one of a name is wide

const cells = (text) => (text ? text.split("\n").map((line) => line.split("\t")) : []);

/** A scan as the page carries it: where its panel lies, its chromosomes, and the points that can be told of, in genome order. */
function scanOf(data) {
  const [left, right, top, bottom, width, height, low, high, most] = data.frame.split(" ").map(Number);
  const chromosomes = cells(data.chromosomes).map(([name, start, first, last]) => ({ name, start: +start, low: +first, high: +last }));
  const points = cells(data.points).map(([name, number, position, strength, ...about]) => {
    const on = chromosomes[number];
    return { name, number: +number, on, position: +position, strength: +strength, at: on.start + (+position - on.low), about };
  });
  points.sort((one, other) => one.at - other.at);
  const panel = { left, right: width - right, top, bottom: height - bottom, width, height, most };
  return { panel, whole: [low, high], strong: +data.strong, chromosomes, points, fields: data.fields ? data.fields.split("\t") : [] };
}

/** A p-value from its -log10, as the page's tables have it. */
function pText(strength) {
  if (strength === Infinity) return "0";
  if (strength < 3) return String(Number((10 ** -strength).toPrecision(3)));
  const exponent = Math.ceil(strength);
  const digits = (10 ** (exponent - strength)).toFixed(1);
  return digits === "10.0" ? `1.0e-${exponent - 1}` : `${digits}e-${exponent}`;
}

/** What is told of a point. */
function told(point, fields) {
  const about = fields.map((field, at) => (point.about[at] ? `${field} ${point.about[at]}` : "")).filter(Boolean);
  return [point.name || "unnamed", `${point.on.name}:${point.position.toLocaleString("en")}`, `p = ${pText(point.strength)}`, ...about].join(" · ");
}

/** Where genome places and strengths lie in a view, in pixels. */
function scales({ panel }, [low, high]) {
  return {
    x: (at) => panel.left + ((at - low) * (panel.right - panel.left)) / (high - low),
    y: (strength) => panel.bottom - (Math.min(strength, panel.most) * (panel.bottom - panel.top)) / panel.most,
  };
}

const within = (scan, [low, high]) => scan.points.filter((point) => point.at >= low && point.at <= high);

/** The point nearest to a place of the picture, or none. */
function nearest(scan, view, x, y) {
  const scale = scales(scan, view);
  let [found, best] = [null, NEAR];
  for (const point of within(scan, view)) {
    const away = Math.hypot(scale.x(point.at) - x, scale.y(point.strength) - y);
    if (away < best || (away === best && found && point.strength > found.strength)) [found, best] = [point, away];
  }
  return found;
}

/** A view that is inside of the genome, and no narrower than some base pairs. */
function kept([low, high], [first, last]) {
  const wide = Math.min(Math.max(high - low, 2000), last - first);
  const begin = Math.min(Math.max((low + high - wide) / 2, first), last - wide);
  return [begin, begin + wide];
}

/** Round numbers across a range, about six. */
function rounded(low, high) {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9));
  const found = [];
  for (let number = Math.ceil(low / step); number * step <= high; number += 1) found.push(Number((number * step).toPrecision(12)));
  return found;
}

/** The ticks of a view: positions of the only chromosome in it, else names of chromosomes; and what the axis is. */
function axisOf(scan, [low, high]) {
  const seen = scan.chromosomes
    .map((one) => ({ one, from: Math.max(low, one.start), to: Math.min(high, one.start + one.high - one.low) }))
    .filter(({ from, to }) => to > from);
  if (seen.length !== 1) {
    const most = (high - low) / 40;
    const ticks = seen.filter(({ from, to }) => to - from > most).map(({ one, from, to }) => [(from + to) / 2, one.name.replace(/^chr/, "")]);
    return { ticks, label: "Chromosome" };
  }
  const [{ one, from, to }] = seen;
  const place = (at) => (at - one.start + one.low) / 1e6;
  const ticks = rounded(place(from), place(to)).map((value) => [value * 1e6 - one.low + one.start, String(value)]);
  return { ticks, label: `Position on chromosome ${one.name.replace(/^chr/, "")} (Mb)` };
}

/** The strongest points of a view, one in each stretch of a name's width; the strongest of all where none is beyond the second line. */
function named(scan, view) {
  const { x } = scales(scan, view);
  const found = [];
  for (const point of within(scan, view).sort((one, other) => other.strength - one.strength)) {
    if (found.length === NAMES || (found.length && point.strength < NAMED)) break;
    const wide = (name) => LETTER * name.length;
    if (point.name && found.every((other) => Math.abs(x(other.at) - x(point.at)) > (wide(other.name) + wide(point.name)) / 2 + 8)) found.push(point);
  }
  return found;
}

if (typeof module !== "undefined") module.exports = { scanOf, pText, told, nearest, kept, rounded, axisOf, named };

function made(tag, attributes, parent, text) {
  const element = document.createElementNS(parent.namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

/** The picture of a part of the genome: points of the data at their own places, the rest of the whole picture stretched behind them. */
function drawn(scan, view, whole, mark) {
  const { panel } = scan;
  const [scale, wide] = [scales(scan, view), scales(scan, scan.whole)];
  const svg = whole.cloneNode(false);
  for (const kind of [".grid", "text[text-anchor=end]:not(.note)", ".axis", ".label", ".line"]) {
    for (const part of whole.querySelectorAll(kind)) svg.append(part.cloneNode(true));
  }
  made("rect", { x: panel.left, y: 0, width: panel.right - panel.left, height: panel.height }, made("clipPath", { id: mark }, svg));
  const inside = made("g", { "clip-path": `url(#${mark})` }, svg);
  const times = (scan.whole[1] - scan.whole[0]) / (view[1] - view[0]);
  for (const part of whole.querySelectorAll(".weak")) {
    const far = part.cloneNode(true);
    far.setAttribute("transform", `translate(${panel.left - wide.x(view[0]) * times} 0) scale(${times} 1) scale(.5)`);
    far.setAttribute("opacity", Math.max(0.12, 1 / times));
    inside.append(far);
  }
  const paths = { even: "", odd: "", hit: "" };
  for (const point of within(scan, view)) {
    const style = point.strength > scan.strong ? "hit" : point.number % 2 ? "odd" : "even";
    paths[style] += `M${(2 * scale.x(point.at)).toFixed(1)} ${(2 * scale.y(point.strength)).toFixed(1)}h0`;
  }
  for (const [style, d] of Object.entries(paths)) if (d) made("path", { class: `dots ${style}`, transform: "scale(.5)", d }, inside);
  for (const point of named(scan, view)) {
    const at = scale.x(point.at);
    const half = (LETTER * point.name.length) / 2;
    const anchor = at - half < panel.left ? "start" : at + half > panel.right ? "end" : "middle";
    made("text", { class: "note", x: at, y: scale.y(point.strength) - 7, "text-anchor": anchor }, svg, point.name);
  }
  const { ticks, label } = axisOf(scan, view);
  for (const [at, text] of ticks) made("text", { x: scale.x(at), y: panel.bottom + 15, "text-anchor": "middle" }, svg, text);
  svg.querySelector(".label").textContent = label;
  return svg;
}

/** A figure of a scan with its tools. Gives what is to be saved of it. */
function zooming(figure, mark) {
  const scan = scanOf(figure.dataset);
  const [box, whole] = [figure.querySelector("div"), figure.querySelector("svg")];
  let [view, shown, chosen] = [scan.whole, whole, null];
  const tip = document.body.appendChild(document.createElement("div"));
  tip.className = "told";
  tip.setAttribute("role", "status");
  const tools = document.createElement("div");
  tools.className = "tools";
  const choice = tools.appendChild(document.createElement("select"));
  choice.setAttribute("aria-label", "Part of the genome");
  const loci = [...figure.querySelectorAll("title")].map((title) => title.textContent);
  const parts = [["Whole genome", scan.whole], ...scan.chromosomes.map((one) => [`Chromosome ${one.name.replace(/^chr/, "")}`, [one.start, one.start + one.high - one.low]])];
  for (const text of loci) {
    const point = scan.points.find((one) => text === `${one.name || "unnamed"}, ${one.on.name}:${one.position}`);
    if (point) parts.push([`${text}, ±500 kb`, [point.at - 5e5, point.at + 5e5]]);
  }
  parts.forEach(([text], at) => choice.add(new Option(text, at)));

  function ring(point) {
    chosen = point;
    shown.querySelector(".chosen")?.remove();
    tip.hidden = !point;
    if (!point) return;
    const scale = scales(scan, view);
    made("circle", { class: "chosen", cx: scale.x(point.at), cy: scale.y(point.strength), r: 5 }, shown);
    tip.textContent = told(point, scan.fields);
    const [edges, factor] = [shown.getBoundingClientRect(), shown.getBoundingClientRect().width / scan.panel.width];
    const [x, y] = [edges.left + scale.x(point.at) * factor, edges.top + scale.y(point.strength) * factor];
    tip.style.left = `${Math.max(8, Math.min(x + 12, window.innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 12 + tip.offsetHeight > window.innerHeight ? y - 12 - tip.offsetHeight : y + 12}px`;
  }
  function show(asked) {
    ring(null);
    view = kept(asked, scan.whole);
    const all = view[1] - view[0] >= (scan.whole[1] - scan.whole[0]) * 0.999;
    if (all) view = scan.whole;
    const next = all ? whole : drawn(scan, view, whole, mark);
    next.setAttribute("tabindex", "0");
    shown.replaceWith(next);
    shown = next;
    const same = parts.findIndex(([, part]) => Math.abs(kept(part, scan.whole)[0] - view[0]) + Math.abs(kept(part, scan.whole)[1] - view[1]) < 1);
    choice.selectedIndex = same; // none where the part is one of the reader's own
  }
  const zoom = (times, middle = (view[0] + view[1]) / 2) => show([middle - (middle - view[0]) / times, middle + (view[1] - middle) / times]);
  const move = (share) => {
    const wide = view[1] - view[0];
    const begin = Math.min(Math.max(view[0] + share * wide, scan.whole[0]), scan.whole[1] - wide);
    show([begin, begin + wide]);
  };
  const step = (by) => {
    const here = within(scan, view);
    if (here.length) ring(here[chosen ? (here.indexOf(chosen) + by + here.length) % here.length : by > 0 ? 0 : here.length - 1]);
  };
  choice.addEventListener("change", () => show(parts[choice.value][1]));
  for (const [text, about, act] of [["+", "Zoom in", () => zoom(2)], ["−", "Zoom out", () => zoom(0.5)], ["←", "Move left", () => move(-0.5)], ["→", "Move right", () => move(0.5)]]) {
    const button = tools.appendChild(document.createElement("button"));
    [button.type, button.textContent, button.title] = ["button", text, about];
    button.setAttribute("aria-label", about);
    button.addEventListener("click", act);
  }
  tools.append("Drag over a part to see it; keys: arrows, +, −, Home.");
  box.before(tools);

  const place = (event) => {
    const edges = shown.getBoundingClientRect();
    const factor = scan.panel.width / edges.width;
    const [x, y] = [(event.clientX - edges.left) * factor, (event.clientY - edges.top) * factor];
    return { x, y, at: view[0] + ((x - scan.panel.left) * (view[1] - view[0])) / (scan.panel.right - scan.panel.left) };
  };
  let begun = null;
  box.addEventListener("pointerdown", (event) => {
    const { x, at } = place(event);
    if (event.button === 0 && x >= scan.panel.left && x <= scan.panel.right) begun = { x, at, band: null };
  });
  box.addEventListener("pointermove", (event) => {
    const { x, y } = place(event);
    if (!begun || Math.abs(x - begun.x) < 4) return ring(begun ? null : nearest(scan, view, x, y));
    if (!begun.band) {
      box.setPointerCapture(event.pointerId);
      begun.band = made("rect", { class: "band", y: scan.panel.top, height: scan.panel.bottom - scan.panel.top }, shown);
    }
    begun.band.setAttribute("x", Math.min(x, begun.x));
    begun.band.setAttribute("width", Math.abs(x - begun.x));
  });
  box.addEventListener("pointerup", (event) => {
    const { x, y, at } = place(event);
    const from = begun;
    begun = null;
    if (from?.band) show([Math.min(at, from.at), Math.max(at, from.at)]);
    else ring(nearest(scan, view, x, y));
  });
  box.addEventListener("pointercancel", () => { begun?.band?.remove(); begun = null; });
  box.addEventListener("pointerleave", () => { if (!begun) ring(null); });
  box.addEventListener("dblclick", (event) => zoom(4, place(event).at));
  const keys = { "+": () => zoom(2), "=": () => zoom(2), "-": () => zoom(0.5), Home: () => show(scan.whole), ArrowRight: () => step(1), ArrowLeft: () => step(-1), Escape: () => ring(null) };
  box.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
    shown.focus();
  });
  window.addEventListener("scroll", () => ring(null), { passive: true });
  show(scan.whole);
  return () => (shown === whole ? null : shown);
}

/** The address of a picture as a file, with the colours of the one that the page has. */
function address(svg, style) {
  const copy = svg.cloneNode(true);
  copy.querySelector(".chosen")?.remove();
  copy.setAttribute("xmlns", copy.namespaceURI);
  copy.setAttribute("height", svg.viewBox.baseVal.height);
  copy.prepend(style);
  return `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
}

/** Save a picture's link as PNG, twice as many pixels across. */
function rasterized(href, name) {
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * image.width, 2 * image.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    const link = document.createElement("a");
    [link.href, link.download] = [canvas.toDataURL("image/png"), name];
    link.click();
  };
  image.src = href;
}

if (typeof document !== "undefined") {
  document.querySelectorAll("figure").forEach((figure, number) => {
    const part = figure.dataset.points === undefined ? () => null : zooming(figure, `part-${number}`);
    const link = figure.querySelector(".save");
    const whole = link.href;
    const now = () => {
      const svg = part();
      if (!svg) return whole;
      const text = new DOMParser().parseFromString(atob(whole.split(",")[1]), "image/svg+xml").querySelector("style");
      return address(svg, document.importNode(text, true));
    };
    link.addEventListener("click", () => { link.href = now(); });
    const png = document.createElement("button");
    [png.type, png.className, png.textContent] = ["button", "save", "Save as PNG"];
    png.addEventListener("click", () => rasterized(now(), link.download.replace(/svg$/, "png")));
    link.after(" ", png);
  });
}
