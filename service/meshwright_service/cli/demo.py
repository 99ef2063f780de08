"""`meshwright-server demo`, which `make run` starts: the service, one plan, and its URLs.

The service runs until Ctrl-C in a terminal; without a terminal it ends after printing.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from pathlib import Path
from queue import SimpleQueue

from uvicorn import Server

from meshwright.cli.consoles import notices, results
from meshwright.cli.progress import ProgressLine
from meshwright.client import Client
from meshwright.common.files import read_document
from meshwright.render import render_plan
from meshwright.schema import Graph, MeshwrightError, Plan, Unavailable
from meshwright_service.cli.server import Web
from meshwright_service.common.settings import Settings
from meshwright_service.common.sockets import listen, url_of

GRAPH = Path("example:llama3-8b")
START_S = 60.0  # chosen: ten times a cold start on a slow disk


def main() -> None:
    """Run the demonstration as a module."""
    arguments = _arguments()
    run(arguments.graph, arguments.topology, Settings(port=arguments.port))


def run(graph: Path, topology: str, settings: Settings) -> None:
    """Start the service, plan a graph, print the URLs; exits with 1 where that fails."""
    with listen("127.0.0.1", settings.port) as listener:
        url = url_of(listener)
        web = Web(settings)
        thread = threading.Thread(target=web.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            _wait_for_start(web, thread)
            _show(url, graph, topology)
            sys.stdout.flush()
            if sys.stdin.isatty() and sys.stdout.isatty():
                _stay()
        except MeshwrightError as error:
            sys.exit(f"{error.title}: {error.detail}")
        except KeyboardInterrupt:
            sys.exit(130)
        finally:
            web.should_exit = True
            thread.join(timeout=30)


def _show(url: str, graph: Path, topology: str) -> None:
    notices().print(f"Meshwright at {url}: planning {graph.name} on {topology}", markup=False)
    with Client(url, timeout_s=START_S) as client, ProgressLine() as line:
        # a fresh search: the planner may be newer than the plans in the store
        document = read_document(graph, Graph)
        answer = client.plan(document, topology, on_progress=line, search="fresh")
        if answer.plan is None:
            assert answer.infeasible is not None
            raise Unavailable(f"no plan fits: {answer.infeasible.detail}")
        cluster = client.get_topology(answer.plan.topology)
    results().print(render_plan(answer.plan, graph=document, topology=cluster))
    _say_where(url, answer.plan)


def _say_where(url: str, plan: Plan) -> None:
    out = results()
    for label, path in (
        ("all plans", "/"),
        ("this plan", f"/plans/{plan.id}"),
        ("its JSON", f"/v1/plans/{plan.id}"),
    ):
        out.print(f"{label}: {url}{path}", markup=False, soft_wrap=True)


def _wait_for_start(web: Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + START_S
    while not web.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise Unavailable("the service did not start. Read its messages above")
        time.sleep(0.02)


def _stay() -> None:
    # a signal handler may put while the main thread waits; an Event would deadlock
    ended: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: ended.put(number))
    notices().print("\nThe service stays up; Ctrl-C ends it.")
    ended.get()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m meshwright_service.cli.demo", description=__doc__
    )
    parser.add_argument("--graph", type=Path, default=GRAPH)
    parser.add_argument("--topology", default="h100-8x8")
    parser.add_argument("--port", type=int, default=0, help="Port; 0 takes a free port.")
    return parser.parse_args()


if __name__ == "__main__":
    main()
