// Cancelling a search or a measurement: asked for by a click, done after a second one.
import { send } from "./api.js";
import { ask } from "./confirmation.js";
import { h, path } from "./element.js";
import { subject, words } from "./job_kinds.js";

/** Ask whether to cancel a job; done(job) with the job as it then is. */
export function askToCancel(job, { signal, done }) {
  const isMeasurement = job.kind === "measurement";
  const noun = isMeasurement ? "measurement" : "search";
  ask({
    title: isMeasurement ? "Cancel the measurement?" : `Cancel the search for ${subject(job)}?`,
    body: h("p", {}, isMeasurement ? "What it has measured is dropped." : `The best ${words(job).answer} so far is kept, if there is one. To go on, the search has to start again.`),
    keep: `Keep ${isMeasurement ? "measuring" : "searching"}`,
    sure: `Cancel the ${noun}`,
    act: async () => done((await send("POST", path`/v1/jobs/${job.id}/cancel`, undefined, { signal })).body),
    signal,
  });
}
