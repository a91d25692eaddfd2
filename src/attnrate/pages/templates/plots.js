
// Draws the plots, each in a task of its own, and again when theme or width ask for it.
(() => {
  "use strict";
  const root = document.documentElement;
  const given = JSON.parse(document.getElementById("plots").textContent);
  const inDark = new Map(Object.entries(given.dark));
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const config = {
    responsive: true,
    displaylogo: false,
    // By default plotly.js offers to send the data of a plot to its makers.
    showSendToCloud: false,
    plotlyServerURL: "",
    typesetMath: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };

  // A copy, because plotly.js writes into what it is given; in dark with the other colours.
  const themed = (value, dark) => {
    if (typeof value === "string") return (dark && inDark.get(value)) || value;
    if (Array.isArray(value)) return value.map((entry) => themed(entry, dark));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, dark)]));
  };
  const widthOf = (place) => {
    const pixels = place.clientWidth;
    if (pixels >= given.breaks.wide) return "wide";
    return pixels >= given.breaks.medium ? "medium" : "narrow";
  };
  const draw = (place) => {
    const plot = given.plots[place.id];
    const width = widthOf(place);
    place.dataset.width = width;
    const layout = themed(plot.layouts[width], isDark());
    // When the window changes, plotly.js asks the element, not the layout, for the height.
    place.style.height = `${layout.height}px`;
    return Plotly.react(place, themed(plot.data, isDark()), layout, config);
  };

  const places = Object.keys(given.plots).map((id) => document.getElementById(id));
  const again = new ResizeObserver((seen) => {
    for (const { target } of seen) if (widthOf(target) !== target.dataset.width) draw(target);
  });
  let turn = 0;
  const drawAll = async () => {
    const mine = ++turn;
    root.dataset.plots = "drawing";
    for (const place of places) {
      await new Promise((resolve) => setTimeout(resolve));
      if (mine !== turn) return;
      await draw(place);
      again.observe(place);
    }
    root.dataset.plots = "drawn";
  };
  document.addEventListener("theme", drawAll);
  drawAll();
})();
