// What the key of this tab may do, so that a page offers nothing that would be refused.
import { get } from "./api.js";
import { held } from "./key.js";

let asked = null; // {key, scopes}: of the key that the tab had when it was asked

/** Whether there is the scope; a page that cannot find out offers all, and the service says what it thinks of it. */
export async function may(scope) {
  if (asked?.key !== held() || asked.failed) {
    const own = { key: held() };
    own.scopes = get("/v1/caller").then((answer) => {
      own.key = held(); // it may have been asked for meanwhile
      return answer.scopes;
    }).catch(() => {
      own.failed = true;
      return [scope];
    });
    asked = own;
  }
  return (await asked.scopes).includes(scope);
}
