"""Two plain pages to look at: the plans, and one plan as `meshwright show` prints it."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from string import Template

from fastapi import APIRouter, Response
from fastapi.responses import HTMLResponse

from meshwright.schema import Graph, Plan, Setup, Topology
from meshwright.show import certificate_text, plan_text
from meshwright.units import show_bytes, show_ns
from service import certificates, documents, shelf
from service.paging import PageRequest
from service.principals import Reader
from service.resources import PlanEntry, plan_entry_of
from service.state import Service

router = APIRouter(include_in_schema=False)
PAGES = files("service") / "pages"
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
}
SHOWN = 200  # plans on the page; the API has them all


@router.get("/")
def index(service: Service, by: Reader) -> HTMLResponse:
    """The newest plans."""
    with service.database.reading() as connection:
        found = shelf.list_plans(connection, by.tenant, PageRequest(SHOWN))
    rows = "\n".join(_row(plan_entry_of(summary)) for summary in found.items)
    if not rows:
        return _page("Plans", "<p>No plan yet. Ask for one: <code>POST /v1/plan</code>.</p>")
    head = (
        "<tr><th>plan<th>created<th>mesh<th>step<th>memory of a device<th>outcome<th>execution</tr>"
    )
    return _page("Plans", f"<table>\n{head}\n{rows}\n</table>")


@router.get("/plans/{plan}")
def show(service: Service, by: Reader, plan: str) -> HTMLResponse:
    """One plan."""
    with service.database.reading() as connection:
        document = documents.parsed(connection, by.tenant, Plan, plan)
        graph = documents.parsed(connection, by.tenant, Graph, document.graph)
        topology = documents.parsed(connection, by.tenant, Topology, document.topology)
        setup = documents.parsed(connection, by.tenant, Setup, document.setup)
        certificate = certificates.find(connection, by.tenant, plan)
    text = plan_text(document, graph=graph, topology=topology, setup=setup, certificate=certificate)
    link = f'<p><a href="/v1/plans/{escape(plan)}">JSON</a></p>'
    if certificate is not None and certificate.outcome != "verified":
        link += f'\n<p class="alarm">{escape(certificate_text(certificate))}</p>'
    return _page(document.name or "Plan", f"{link}\n<pre>{escape(text)}</pre>")


@router.get("/page.css")
def style() -> Response:
    """The style sheet of the pages."""
    return Response((PAGES / "page.css").read_bytes(), media_type="text/css")


def _row(plan: PlanEntry) -> str:
    meshes = "; ".join(
        " × ".join(f"{axis}={size}" for axis, size in mesh.items()) for mesh in plan.meshes
    )
    cells = (
        f'<td><a href="/plans/{escape(plan.id)}">{escape(plan.name or plan.id[:17])}</a>'
        f"<td>{escape(plan.created_at[:19])}<td>{escape(meshes)}"
        f'<td class="number">{show_ns(plan.step_ns)}'
        f'<td class="number">{show_bytes(plan.memory_bytes)} of {show_bytes(plan.capacity_bytes)}'
        f"<td>{escape(plan.outcome)}{_execution(plan.certificate)}"
    )
    return f"<tr>{cells}</tr>"


def _execution(outcome: str | None) -> str:
    mark = "" if outcome in (None, "verified") else ' class="alarm"'
    return f"<td{mark}>{outcome or 'not asked'}"


def _page(title: str, body: str) -> HTMLResponse:
    page = Template((PAGES / "page.html").read_text(encoding="utf-8"))
    return HTMLResponse(page.substitute(title=escape(title), body=body), headers=HEADERS)
