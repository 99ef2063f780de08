// Every page: its path, and the module that shows it. The service answers these paths with the same
// document (service/meshwright_service/api/static_files.py), so each is a link that can be kept.
export const ROUTES = [
  ["/", () => import("./views/plans.js")],
  ["/jobs/{job}", () => import("./views/job.js")],
  ["/jobs/{job}/what-if", () => import("./views/what_if.js")],
  ["/plans/{plan}", () => import("./views/plan.js")],
  ["/plans/{plan}/graph", () => import("./views/graph.js")],
  ["/plans/{plan}/why", () => import("./views/why.js")],
  ["/plans/{plan}/communication", () => import("./views/communication.js")],
  ["/plans/{plan}/timeline", () => import("./views/timeline.js")],
  ["/plans/{plan}/front", () => import("./views/front.js")],
  ["/plans/{plan}/what-if", () => import("./views/what_if.js")],
  ["/compare", () => import("./views/compare.js")],
  ["/graphs", () => import("./views/graphs.js")],
  ["/graphs/{graph}/plan", () => import("./views/what_if.js")],
  ["/graphs/{graph}/sweep", () => import("./views/new_sweep.js")],
  ["/sweeps", () => import("./views/sweeps.js")],
  ["/sweeps/{sweep}", () => import("./views/sweep.js")],
  ["/topologies", () => import("./views/topologies.js")],
  ["/topologies/{topology}", () => import("./views/topology.js")],
  ["/calibrations/{calibration}", () => import("./views/calibration.js")],
  ["/agents", () => import("./views/agents.js")],
];
