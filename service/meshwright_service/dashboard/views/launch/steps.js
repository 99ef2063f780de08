// Steps in order: a sentence, and the code that carries it out.
import { h } from "../../element.js";
import { held } from "../../key.js";
import { codeBlock } from "../../copy.js";
import { SERVICE_URL } from "../../root_path.js";

/** steps: {text, code} in order, code may be several ways to do it; `{server}` in it is this service. */
export function stepList(steps) {
  return h("ol", { class: "steps", "aria-label": "Steps" }, steps.map(({ text, code }) => h("li", {},
    h("p", {}, text),
    [code].flat().map((own, at) => codeBlock(own.replaceAll("{server}", SERVICE_URL).trimEnd(), at ? `${text} (${at + 1})` : text)))));
}

/** The step that fetches a file, by the command line or by curl. */
export function fetchStep({ plan, target, file, isPartial }) {
  const key = held() ? ' -H "Authorization: Bearer $MESHWRIGHT_API_KEY"' : "";
  return {
    text: "Fetch the file, by the command line or by curl.",
    code: [
      `meshwright export ${plan} --to ${target} --server {server}${isPartial ? " --partial" : ""} -o ${file}`,
      `curl -sf${key} "{server}/v1/plans/${plan}/launch/${target}${isPartial ? "?partial=true" : ""}" | jq -rj .text > ${file}`,
    ],
  };
}
