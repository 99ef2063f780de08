// A runtime of this project: the program that trains with the plan, which it reads from the service.
import { refusedBox, whereFits } from "./refusal.js";
import { stepList } from "./steps.js";

export function runtimePanel({ way, entry }) {
  if (way.refused.length) return refusedBox(way.title, way.refused);
  return whereFits(entry, () => stepList(way.steps));
}
