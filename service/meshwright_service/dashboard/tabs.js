// Tabs by the ARIA pattern: one stop of the keyboard, arrows from tab to tab, Home and End.
import { h } from "./element.js";

/**
 * groups: [{title, tabs: [{name, title, mark}]}]; panel: the element that shows the tab's content;
 * onSelect(name): another tab was chosen. {element, select(name)}
 */
export function tabList({ label, groups, panel, onSelect }) {
  const tabs = new Map(groups.flatMap((group) => group.tabs.map(({ name, title, mark }) => [name, h("button", {
    type: "button", role: "tab", id: `tab-${name}`, "aria-controls": panel.id, tabindex: -1, onclick: () => chosen(name),
  }, title, mark ? [" ", h("span", { class: "tag good" }, mark)] : null)])));
  const names = [...tabs.keys()];
  const element = h("div", { class: "tab-list", role: "tablist", "aria-label": label, onkeydown: pressed },
    groups.filter((group) => group.tabs.length).map((group) => h("div", { class: "tab-group", role: "presentation" },
      h("span", { class: "muted", "aria-hidden": "true" }, group.title),
      group.tabs.map(({ name }) => tabs.get(name)))));
  panel.setAttribute("role", "tabpanel");
  return { element, select };

  function select(name) {
    for (const [own, tab] of tabs) {
      tab.setAttribute("aria-selected", String(own === name));
      tab.tabIndex = own === name ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `tab-${name}`);
  }

  function chosen(name) {
    select(name);
    onSelect(name);
  }

  function pressed(event) {
    const at = names.findIndex((name) => tabs.get(name) === document.activeElement);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (at < 0 || to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const name = names.at(to % names.length);
    tabs.get(name).focus();
    chosen(name);
  }
}
