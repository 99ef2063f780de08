"""`python -m bench.beside`: how others are answered while a large plan is simulated.

304s to eight connections of wrk, alone and while somebody asks for the timeline of GPT-3 175B in
pipeline stages on 1,024 A100 for the first time; how long that takes, then, and in a second process
of the API. Two cores: wrk, the API and what it has begun share them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from bench.ending import measured
from bench.load import serving, wrk
from bench.stored_plans import gpt3, store_plan
from bench.timing import median_seconds, reference_loop, say

SECONDS = 8  # of a row; chosen: less than the timeline takes where it is made


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.beside", description=__doc__)
    parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meshwright-beside-") as name:
        folder = Path(name)
        store = f"sqlite:///{folder / 'meshwright.db'}"
        plan = store_plan(store, gpt3())
        with serving(store, folder) as (url, _):
            _beside(url, plan)
            again_s = _timeline(url, plan)
        with serving(store, folder) as (url, _):
            other_s = _timeline(url, plan)
        say(f"| the timeline again | | | {again_s:.2f} s |")
        say(f"| the timeline of a process that has just begun | | | {other_s:.2f} s |")
    reference_s, _ = median_seconds(reference_loop)
    say(f"| numpy reference loop | | | {reference_s * 1e3:.1f} ms |")


def _beside(url: str, plan: str) -> None:
    path = f"{url}/v1/plans/{plan}"
    tag = {"If-None-Match": f'"{plan}"'}
    say("| 304s, 8 connections, wrk | a second | median | 99 % |")
    say("| --- | --- | --- | --- |")
    rate, median, worst = wrk(path, tag, None, SECONDS)
    say(f"| nothing beside | {rate:,.0f} | {median} | {worst} |")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_timeline, url, plan)
        rate, median, worst = wrk(path, tag, None, SECONDS)
        under_way = "" if not asked.done() else " (which ended before)"
        say(f"| a timeline is made{under_way} | {rate:,.0f} | {median} | {worst} |")
        say(f"| the timeline, asked for first | | | {asked.result():.2f} s |")


def _timeline(url: str, plan: str) -> float:
    begun = time.perf_counter()
    httpx.get(f"{url}/v1/plans/{plan}/timeline", timeout=120).raise_for_status()
    return time.perf_counter() - begun


if __name__ == "__main__":
    measured(main)
