
// Light or dark: what the system says, until the reader chooses; the choice is remembered.
(() => {
  "use strict";
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const tell = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", `Show the page in ${isDark() ? "light" : "dark"}`);
    document.dispatchEvent(new CustomEvent("theme", { detail: { dark: isDark() } }));
  };
  try {
    const kept = localStorage.getItem("attnrate-theme");
    if (kept === "dark" || kept === "light") root.dataset.theme = kept;
  } catch {
    // A browser that keeps nothing: the choice lasts as long as the page.
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("attnrate-theme", root.dataset.theme);
    } catch {
      // As above.
    }
    tell();
  });
  system.addEventListener("change", tell);
  tell();
})();
