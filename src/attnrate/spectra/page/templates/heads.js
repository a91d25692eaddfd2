
// Heads one by one: chosen from lists or on the map, drawn from the compact data of the page.
(() => {
  "use strict";
  const given = JSON.parse(document.getElementById("heads").textContent);
  const byId = (id) => document.getElementById(id);
  const [layerList, headList, chart, words, value] =
    ["head-layer", "head-number", "head-chart", "head-words", "head-value"].map(byId);
  const NS = "http://www.w3.org/2000/svg";
  const CODES = 65534;
  const POOLED = 0, LOW = 1, MIDDLE = 2, HIGH = 3;

  // The whole numbers of 16 bits of a layer, once for each layer that is looked at.
  const codesOf = (layer) => {
    if (!layer.codes) {
      const text = atob(layer.spectra);
      layer.codes = new Uint16Array(text.length / 2);
      for (let i = 0; i < layer.codes.length; i++) {
        layer.codes[i] = text.charCodeAt(2 * i) + 256 * text.charCodeAt(2 * i + 1);
      }
    }
    return layer.codes;
  };
  // One of the four curves of a head; null where a value is rounding.
  const curve = (layer, head, which) => {
    const count = layer.k.length;
    const from = (which * layer.needed.length + head) * count;
    return [...codesOf(layer).subarray(from, from + count)].map((code) =>
      code === 0 ? null : given.low * Math.exp(((code - 1) * given.range) / CODES));
  };

  const make = (name, attributes, text) => {
    const one = document.createElementNS(NS, name);
    for (const [key, content] of Object.entries(attributes)) one.setAttribute(key, content);
    if (text !== undefined) one.textContent = text;
    return one;
  };
  const figure = (number) => {
    if (number === null) return "–";
    const shown = Number(number.toPrecision(3));
    return shown >= 1e-3 && shown < 1e5 ? String(shown) : shown.toExponential().replace("e", "×10^");
  };
  const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const decade = (power) => power === 0 ? "1" : power === 1 ? "10" :
    "10" + (power < 0 ? "⁻" : "") + [...String(Math.abs(power))].map((d) => RAISED[d]).join("");

  let at = { layer: 0, head: 0 };
  let inner = null; // what the pointer reads: the curves, the places of k, the mark

  const draw = () => {
    const layer = given.layers[at.layer];
    const curves = [POOLED, LOW, MIDDLE, HIGH].map((which) => curve(layer, at.head, which));
    const width = Math.max(280, chart.clientWidth), height = Math.min(380, Math.max(260, width * 0.55));
    const left = 54, right = 12, top = 12, bottom = 46;
    const seen = curves.flat().filter((one) => one !== null);
    const ends = seen.length ? [Math.min(...seen), Math.max(...seen)] : [0.1, 1];
    let [low, high] = ends.map(Math.log10);
    const room = Math.max(0.06 * (high - low), 0.1);
    low -= room;
    high += room;
    const x = (k) => left + ((k - 0.5) / layer.m_h) * (width - left - right);
    const y = (sigma) => top + ((high - Math.log10(sigma)) / (high - low)) * (height - top - bottom);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
      "aria-label": `Singular values of layer ${layer.label}, head ${at.head}` });

    // ticks: decades, or 1, 2, 5 times them where there are few
    const decades = [];
    for (let p = Math.floor(low); p <= Math.ceil(high); p++) decades.push(p);
    let ticks = decades.map((p) => [10 ** p, decade(p)]);
    const shown = () => ticks.filter(([v]) => Math.log10(v) >= low && Math.log10(v) <= high);
    if (shown().length < 3) {
      ticks = decades.flatMap((p) => [1, 2, 5].map((m) => [m * 10 ** p, figure(m * 10 ** p)]));
    }
    for (const [v, text] of shown()) {
      svg.append(make("path", { class: "grid", d: `M${left} ${y(v)}H${width - right}` }));
      svg.append(make("text", { class: "end", x: left - 6, y: y(v) + 4 }, text));
    }
    const step = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100].find((s) => layer.m_h / s <= 9) || 128;
    for (let k = step; k <= layer.m_h; k += step) {
      svg.append(make("text", { x: x(k), y: height - bottom + 17 }, String(k)));
    }
    svg.append(make("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
    svg.append(make("text", { class: "label", x: (left + width - right) / 2, y: height - 8 }, "k"));
    svg.append(make("text", { class: "label",
      transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)` }, "σ_k of the logits / √(T S)"));

    const line = (values) => {
      let path = "", open = false;
      values.forEach((one, i) => {
        if (one !== null) path += `${open ? "L" : "M"}${x(layer.k[i]).toFixed(1)} ${y(one).toFixed(1)}`;
        open = one !== null;
      });
      return path;
    };
    const both = layer.k.map((_, i) => i).filter((i) => curves[LOW][i] !== null && curves[HIGH][i] !== null);
    if (both.length) {
      const corner = (which) => (i) => `${x(layer.k[i]).toFixed(1)} ${y(curves[which][i]).toFixed(1)}`;
      const around = [...both.map(corner(HIGH)), ...both.reverse().map(corner(LOW))];
      svg.append(make("path", { class: "band", d: `M${around.join("L")}Z` }));
    }
    const needed = x(layer.needed[at.head] + 0.5);
    svg.append(make("path", { class: "needed", d: `M${needed} ${top}V${height - bottom}` }));
    svg.append(make("path", { class: "middle", d: line(curves[MIDDLE]) }));
    svg.append(make("path", { class: "pooled", d: line(curves[POOLED]) }));
    const dots = curves[POOLED].map((one, i) => one === null ? "" :
      `M${(x(layer.k[i]) - 2.2).toFixed(1)} ${y(one).toFixed(1)}a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0 -4.4 0`);
    svg.append(make("path", { class: "dots", d: dots.join("") }));
    const mark = make("path", { class: "pointed" });
    svg.append(mark);
    inner = { layer, curves, x, top, bottom: height - bottom, mark, width };
    chart.replaceChildren(svg);
  };

  const point = (event) => {
    if (!inner) return;
    const box = chart.firstChild.getBoundingClientRect();
    const pixels = ((event.clientX - box.left) / box.width) * inner.width;
    const places = inner.layer.k.map((k) => Math.abs(inner.x(k) - pixels));
    const i = places.indexOf(Math.min(...places));
    const k = inner.layer.k[i];
    inner.mark.setAttribute("d", `M${inner.x(k)} ${inner.top}V${inner.bottom}`);
    const [pooled, low, middle, high] = inner.curves.map((values) => figure(values[i]));
    value.textContent = `k = ${k}: all inputs together ${pooled}; over the inputs ${middle} [${low} to ${high}].`;
  };

  const say = () => {
    const layer = given.layers[at.layer], h = at.head;
    const cross = layer.kind === "self" ? "" : `, ${layer.kind} attention`;
    let text = `Layer ${layer.label} (${layer.name}${cross}), head ${h}: needs ${layer.needed[h]} of ` +
      `${layer.m_h} dimensions so that at most ${given.tolerance} of its attention moves. ` +
      `99 % of its energy lies in ${layer.rank99[h]}, 99.9 % in ${layer.rank999[h]}; ` +
      `stable rank ${layer.stable[h]}; ${layer.law[h]}.`;
    if (layer.moved) {
      text += ` A cut to 99 % of the energy moves ${layer.moved[h]} of its attention and changes its ` +
        `output by ${layer.changed[h]}.`;
    }
    words.textContent = text;
  };

  // The map: a grid with one stop for the keyboard, whose arrows choose heads.
  const map = byId("map");
  const rows = [...map.querySelectorAll("tbody tr:not(.part)")];
  const cellAt = (layer, head) => rows[layer].querySelectorAll("td")[head];
  map.setAttribute("role", "grid");
  const headsIn = (layer) => given.layers[layer].needed.length;

  const choose = (layer, head, focus) => {
    const before = cellAt(at.layer, at.head);
    before.removeAttribute("aria-selected");
    before.tabIndex = -1;
    if (layer !== at.layer || headList.length === 0) {
      headList.replaceChildren(...given.layers[layer].needed.map((size, h) =>
        new Option(`${h} (needs ${size})`, String(h))));
    }
    at = { layer, head: Math.min(head, headsIn(layer) - 1) };
    layerList.value = String(at.layer);
    headList.value = String(at.head);
    const cell = cellAt(at.layer, at.head);
    cell.setAttribute("aria-selected", "true");
    cell.tabIndex = 0;
    if (focus) cell.focus({ preventScroll: false });
    value.textContent = "Point at the curve to read a value.";
    draw();
    say();
  };

  let group = layerList;
  given.layers.forEach((layer, i) => {
    if (layer.part && (i === 0 || given.layers[i - 1].part !== layer.part)) {
      group = document.createElement("optgroup");
      group.label = layer.part;
      layerList.append(group);
    } else if (!layer.part) group = layerList;
    group.append(new Option(`${layer.label} ${layer.name}`, String(i)));
  });
  layerList.addEventListener("change", () => choose(Number(layerList.value), at.head));
  headList.addEventListener("change", () => choose(at.layer, Number(headList.value)));
  map.addEventListener("click", (event) => {
    const cell = event.target.closest("td:not(.none)");
    if (!cell) return;
    choose(rows.indexOf(cell.parentNode), [...cell.parentNode.querySelectorAll("td")].indexOf(cell));
  });
  const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  map.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    const enter = event.key === "Enter" || event.key === " ";
    if (enter) byId("head").scrollIntoView({ block: "nearest" });
    if (!move && !enter) return;
    event.preventDefault();
    if (!move) return;
    const layer = Math.min(rows.length - 1, Math.max(0, at.layer + move[0]));
    const head = Math.min(headsIn(layer) - 1, Math.max(0, at.head + move[1]));
    choose(layer, head, true);
  });
  chart.addEventListener("pointermove", point);
  chart.addEventListener("pointerdown", point);

  byId("head").hidden = false;
  choose(0, 0);
  let drawnAt = chart.clientWidth;
  new ResizeObserver(() => {
    if (chart.clientWidth === drawnAt) return;
    drawnAt = chart.clientWidth;
    draw();
  }).observe(chart);
})();
