// What stands where there is nothing to show yet, nothing at all, or no answer.
import { h } from "./element.js";

export function loading(what) {
  return h("div", { class: "state", role: "status" }, `Loading ${what} …`);
}

export function empty(title, ...hint) {
  return h("div", { class: "state" }, h("h2", {}, title), h("p", {}, ...hint));
}

/** A problem, with what the service said of each place; retry: a function, or nothing; label: of its button. */
export function failed(problem, retry, label = "Try again") {
  const detail = problem.detail ?? problem.message;
  const more = problem.errors?.filter((error) => error.pointer || error.detail !== detail) ?? [];
  return h(
    "div", { class: "state failed", role: "alert" },
    h("strong", {}, problem.title ?? "This page failed"),
    h("p", { class: "name" }, detail),
    more.length
      ? h("ul", {}, more.map((error) => h("li", { class: "name" }, h("code", {}, error.pointer || "/"), " ", error.detail)))
      : null,
    retry ? h("button", { onclick: retry }, label) : null,
  );
}
