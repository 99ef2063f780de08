// Before the page is painted: the theme that was chosen, else the system's.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // storage can be forbidden; the system's theme is a fine default
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
