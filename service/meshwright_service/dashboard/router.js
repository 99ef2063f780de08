// From the address to a view, and from a click to another address.
import { h, fill } from "./element.js";
import { load, Unloaded } from "./page_module.js";
import { withRoot, withoutRoot } from "./root_path.js";
import { failed, loading } from "./states.js";
import { ROUTES } from "./routes.js";

let leaving = new AbortController();
let shown = null;

export function begin() {
  addEventListener("popstate", () => (location.pathname + location.search === shown ? null : show()));
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    if (!anchor || event.button || event.ctrlKey || event.metaKey || event.shiftKey || anchor.download) return;
    const to = new URL(anchor.href);
    const address = withoutRoot(to.pathname);
    if (to.origin !== location.origin || !found(address) || (to.hash && to.pathname === location.pathname)) return;
    event.preventDefault();
    go(address + to.search);
  });
  return show();
}

/** To another page. */
export function go(address) {
  history.pushState(null, "", withRoot(address));
  return show(true);
}

/** The address of what is on the page now: small state, without a step back. */
function keep(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  const text = query.toString();
  shown = location.pathname + (text && `?${text}`);
  history.replaceState(null, "", shown);
}

async function show(moved = false) {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  shown = location.pathname + location.search;
  const main = document.getElementById("view");
  const root = h("div", {}, loading("the page"));
  fill(main, root);
  current();
  if (moved) {
    scrollTo(0, 0);
    main.focus();
  }
  const title = (text) => (document.title = text ? `${text} · Meshwright` : "Meshwright");
  const address = withoutRoot(location.pathname);
  const match = found(address);
  try {
    if (!match) throw Object.assign(new Error(`There is no page ${location.pathname}.`), { title: "No such page" });
    const view = await load(match.module);
    if (signal.aborted) return;
    title(null);
    const query = new URLSearchParams(location.search);
    await view.show({ root, params: match.params, query, signal, go, keep, title });
  } catch (error) {
    if (signal.aborted) return;
    if (!error.title) console.error(error); // a fault of ours, not an answer
    // what does not exist will not exist at the next try either
    if (error instanceof Unloaded) fill(root, error.shown(signal));
    else if (error.status === 404) fill(root, failed(error), h("p", {}, h("a", { href: "/" }, "All plans")));
    else fill(root, failed(error, () => show()));
  } finally {
    if (!signal.aborted) root.dataset.shown = address;
  }
}

function found(path) {
  for (const [pattern, module] of ROUTES) {
    const names = [];
    const shape = pattern.replace(/\{(\w+)\}/g, (_, name) => (names.push(name), "([^/]+)"));
    const values = new RegExp(`^${shape}$`).exec(path)?.slice(1).map(decoded);
    if (values) return values.includes(null) ? null : { module, params: Object.fromEntries(names.map((name, at) => [name, values[at]])) };
  }
  return null;
}

/** A part of a path; null where it is no text. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

const SECTIONS = { new: "/new", graphs: "/graphs", sweeps: "/sweeps", topologies: "/topologies", calibrations: "/topologies", agents: "/agents" };

function current() {
  const here = withoutRoot(location.pathname);
  const section = withRoot(SECTIONS[here.split("/")[1]] ?? "/");
  for (const anchor of document.querySelectorAll(".top a:not(.brand)")) {
    if (anchor.getAttribute("href") === section) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
}
