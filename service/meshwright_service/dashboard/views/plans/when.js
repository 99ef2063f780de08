// A moment as people say it; the page that shows it lets it grow older.
import { h } from "../../element.js";
import { ago, moment } from "../../units.js";

export function when(iso) {
  return iso ? h("time", { datetime: iso, title: moment(iso), "data-ago": true }, ago(iso)) : "–";
}
