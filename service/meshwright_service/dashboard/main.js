import * as key from "./key.js";
import { help, listen, press } from "./keys.js";
import { begin, go } from "./router.js";

const theme = document.getElementById("theme");
const forget = document.getElementById("forget");

const system = matchMedia("(prefers-color-scheme: dark)");

function dark() {
  return (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
}

function named() {
  theme.textContent = dark() ? "Light" : "Dark";
}

system.addEventListener("change", named);
theme.addEventListener("click", () => {
  const next = dark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
  named();
});
forget.addEventListener("click", () => {
  key.forget();
  location.reload();
});
key.onChange((held) => (forget.hidden = !held));
document.getElementById("help").addEventListener("click", help);
press({
  "?": ["all keys", help],
  "/": ["search", () => document.querySelector("[data-search]")?.focus()],
  n: ["new plan", () => go("/new")],
  "g p": ["plans", () => go("/")],
  "g g": ["graphs", () => go("/graphs")],
  "g s": ["sweeps", () => go("/sweeps")],
  "g t": ["topologies", () => go("/topologies")],
  "g a": ["agents", () => go("/agents")],
});
listen();
named();
begin();
