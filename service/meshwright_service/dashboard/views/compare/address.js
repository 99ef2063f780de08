// The address of a comparison: two plans as plan=a&plan=b, more as plans=a,b,c with a baseline.

export const MOST_PLANS = 8; // as the service has it

/** The ids of the plans that an address names. */
export function plansOf(query) {
  const listed = (query.get("plans") ?? "").split(",");
  return [...query.getAll("plan"), ...listed].filter(Boolean).slice(0, MOST_PLANS);
}

/** The address of the comparison of these plans. baseline: an id; the first plan if it is none of them. */
export function comparisonAddress(plans, baseline = null) {
  const quoted = plans.filter(Boolean).map(encodeURIComponent);
  if (quoted.length <= 2) return `/compare?${quoted.map((id) => `plan=${id}`).join("&")}`;
  const based = baseline && plans.indexOf(baseline) > 0 ? `&baseline=${encodeURIComponent(baseline)}` : "";
  return `/compare?plans=${quoted.join(",")}${based}`;
}
