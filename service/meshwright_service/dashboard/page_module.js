// The module of a page. It may not load: while the service is away, and after an upgrade, when this page is of an older version.
import { Problem } from "./problem.js";
import { SERVICE_URL, withRoot } from "./root_path.js";
import { failed } from "./states.js";

const RETRY_MS = 3000; // chosen: a service starts in some seconds

/** The module at a path; raises Problem where the service has no such file or does not answer. */
export async function load(path) {
  const url = new URL(path, import.meta.url);
  try {
    return await import(url);
  } catch (error) {
    const answer = await reached(url);
    if (!answer) throw new Unloaded({ title: "The service does not answer: this page tries again", detail: `${SERVICE_URL} does not answer. Is it running? meshwright-server serve` });
    if (answer.status === 404) throw new Unloaded({ status: 404, title: "The dashboard was upgraded", detail: "This page is of another version than the service. Reload the page." });
    throw error;
  }
}

/** A page whose module did not load. */
export class Unloaded extends Problem {
  /** The content of the page: a way to reload it, which happens by itself once the service answers again. */
  shown(signal) {
    if (!this.status) this.#reload(signal);
    return failed(this, () => location.reload(), "Reload");
  }

  async #reload(signal) {
    do await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    while (!signal.aborted && !(await reached(withRoot("/healthz"))));
    if (!signal.aborted) location.reload();
  }
}

/** The answer of the service at an address, or null. */
function reached(url) {
  return fetch(url, { cache: "no-store" }).catch(() => null);
}
