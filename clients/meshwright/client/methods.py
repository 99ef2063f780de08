"""Everything that clients ask a service: one list, for those that block and those that await."""

from __future__ import annotations

from meshwright.client import cost_graphs as of_cost_graphs
from meshwright.client import documents as of_documents
from meshwright.client import jobs as of_jobs
from meshwright.client import plan_requests as of_searches
from meshwright.client import plans as of_plans
from meshwright.client import sweeps as of_sweeps
from meshwright.client.method_descriptor import Endpoint, Listing


class Endpoints:
    """The methods of clients."""

    plan = Endpoint(of_searches.plan)

    sweep = Endpoint(of_sweeps.sweep)
    begin_sweep = Endpoint(of_sweeps.begin_sweep)
    follow_sweep = Endpoint(of_sweeps.follow_sweep)
    get_sweep = Endpoint(of_sweeps.get_sweep)
    sweeps = Listing(of_sweeps.sweeps)
    cancel_sweep = Endpoint(of_sweeps.cancel_sweep)
    delete_sweep = Endpoint(of_sweeps.delete_sweep)

    solve = Endpoint(of_cost_graphs.solve)
    get_solution = Endpoint(of_cost_graphs.get_solution)
    get_cost_graph = Endpoint(of_cost_graphs.get_cost_graph)
    cost_graphs = Listing(of_cost_graphs.cost_graphs)
    delete_cost_graph = Endpoint(of_cost_graphs.delete_cost_graph)
    delete_solution = Endpoint(of_cost_graphs.delete_solution)

    get_job = Endpoint(of_jobs.get_job)
    asked_by = Endpoint(of_jobs.asked_by)
    follow = Endpoint(of_jobs.follow)
    cancel = Endpoint(of_jobs.cancel)
    jobs = Listing(of_jobs.jobs)

    get_plan = Endpoint(of_plans.get_plan)
    asked_for = Endpoint(of_plans.asked_for)
    get_rank_strategy = Endpoint(of_plans.get_rank_strategy)
    certificate = Endpoint(of_plans.certificate)
    redistributions = Endpoint(of_plans.redistributions)
    simulation = Endpoint(of_plans.simulation)
    timeline = Endpoint(of_plans.timeline)
    transfer = Endpoint(of_plans.transfer)
    observe = Endpoint(of_plans.observe)
    observations = Listing(of_plans.observations)
    plans = Listing(of_plans.plans)
    delete_plan = Endpoint(of_plans.delete_plan)
    labels = Endpoint(of_plans.labels)
    strategies = Listing(of_plans.strategies)
    communication = Endpoint(of_plans.communication)
    tensor_layouts = Endpoint(of_plans.tensor_layouts)
    costliest_ops = Endpoint(of_plans.costliest_ops)
    memory = Endpoint(of_plans.memory)
    schedule = Endpoint(of_plans.schedule)
    layout = Endpoint(of_plans.layout)
    explain = Endpoint(of_plans.explain)
    alternatives = Endpoint(of_plans.alternatives)
    overview = Endpoint(of_plans.overview)
    compare = Endpoint(of_plans.compare)
    compare_table = Endpoint(of_plans.compare_table)

    upload_graph = Endpoint(of_documents.upload_graph)
    get_graph = Endpoint(of_documents.get_graph)
    graphs = Listing(of_documents.graphs)
    upload_topology = Endpoint(of_documents.upload_topology)
    get_topology = Endpoint(of_documents.get_topology)
    topologies = Listing(of_documents.topologies)
    delete_graph = Endpoint(of_documents.delete_graph)
    rates = Endpoint(of_documents.rates)
    topology_observations = Endpoint(of_documents.topology_observations)
    delete_topology = Endpoint(of_documents.delete_topology)
    get_setup = Endpoint(of_documents.get_setup)
    upload_calibration = Endpoint(of_documents.upload_calibration)
    get_calibration = Endpoint(of_documents.get_calibration)
    residuals = Endpoint(of_documents.residuals)
    calibrations = Listing(of_documents.calibrations)
    delete_calibration = Endpoint(of_documents.delete_calibration)
    delete_samples = Endpoint(of_documents.delete_samples)
    upload_samples = Endpoint(of_documents.upload_samples)
    samples = Listing(of_documents.samples)

    agents = Listing(of_jobs.agents)
    measure = Endpoint(of_jobs.measure)
