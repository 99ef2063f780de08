import { SERVICE_URL } from "./root_path.js";

/** What the service refused, in its own words (RFC 9457). */
export class Problem extends Error {
  constructor({ status = 0, title = "Failed", detail = "", errors = [], instance = null }) {
    super(detail || title);
    Object.assign(this, { name: "Problem", status, title, detail, errors, instance });
  }

  /** Of an answer that is no success. */
  static async of(response) {
    let body = {};
    try {
      body = await response.json();
    } catch {
      body = { title: `${response.status} ${response.statusText}`, detail: "The service gave no reason." };
    }
    return new Problem({ ...body, status: response.status });
  }

  /** Of a request that got no answer. */
  static unreachable(error) {
    return new Problem({
      title: "The service does not answer",
      detail: `${SERVICE_URL}: ${error.message}. Is it running? meshwright-server serve`,
    });
  }
}
