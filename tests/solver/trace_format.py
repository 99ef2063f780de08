"""The Trace Event Format, as far as a trace may use it, and what breaks it.

Written against the format's own page ("Trace Event Format", N. Duff and others, Google, 2016), not
against what writes our traces. Two things are asked for beyond it, since Perfetto's importer needs
them: what happens at one time on a thread nests, and names and numbers are of the right kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from re import fullmatch
from typing import Any

Event = Mapping[str, Any]
Thread = tuple[int, int]

# the sections "Duration", "Complete", "Instant", "Counter", "Async", "Flow" and "Metadata events"
REQUIRED: Mapping[str, frozenset[str]] = {
    "B": frozenset({"name", "pid", "tid", "ts"}),
    "E": frozenset({"pid", "tid", "ts"}),
    "X": frozenset({"name", "pid", "tid", "ts", "dur"}),
    "i": frozenset({"name", "pid", "tid", "ts"}),
    "C": frozenset({"name", "pid", "ts", "args"}),
    "b": frozenset({"name", "cat", "id", "pid", "ts"}),
    "e": frozenset({"name", "cat", "id", "pid", "ts"}),
    "s": frozenset({"name", "cat", "id", "pid", "tid", "ts"}),
    "t": frozenset({"name", "cat", "id", "pid", "tid", "ts"}),
    "f": frozenset({"name", "cat", "id", "pid", "tid", "ts"}),
    "M": frozenset({"name", "pid", "args"}),
}
OPTIONAL = frozenset({"ph", "name", "cat", "tts", "tdur", "args", "cname", "tid", "id", "bp", "s"})
# name of the metadata -> its one argument, and of what kind that is
METADATA: Mapping[str, tuple[str, type]] = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
TOP = frozenset({"traceEvents", "displayTimeUnit", "otherData", "systemTraceEvents", "metadata"})


def faults(document: Any) -> list[str]:
    """What breaks the format; nothing where a reader may rely on it."""
    if not isinstance(document, dict) or not isinstance(document.get("traceEvents"), list):
        return ["no object with a list of traceEvents"]
    found = [f"{key!r} is no key of a trace" for key in sorted(document.keys() - TOP)]
    if document.get("displayTimeUnit", "ms") not in ("ms", "ns"):
        found.append(f"displayTimeUnit {document['displayTimeUnit']!r}")
    events = document["traceEvents"]
    for number, event in enumerate(events):
        found += [f"event {number}: {fault}" for fault in _of_event(event)]
    if found:
        return found
    return [*_crossing(events), *_unmatched(events), *_unpaired(events), *_unnamed(events)]


def _of_event(event: Any) -> Iterator[str]:
    phase = event.get("ph") if isinstance(event, dict) else None
    if phase not in REQUIRED:
        yield f"phase {phase!r}"
        return
    for key in sorted(REQUIRED[phase] - event.keys()):
        yield f"{phase} has no {key!r}"
    for key in sorted(event.keys() - REQUIRED[phase] - OPTIONAL):
        yield f"{phase} has {key!r}"
    for key in ("name", "cat"):
        if not isinstance(event.get(key, ""), str) or event.get(key, "-") == "":
            yield f"{key} {event[key]!r}"
    for key in ("pid", "tid"):
        if type(event.get(key, 0)) is not int:
            yield f"{key} {event[key]!r}"
    for key in ("ts", "dur"):
        if key in event and not _is_microseconds(event[key]):
            yield f"{key} {event[key]!r}"
    args = event.get("args", {})
    if not isinstance(args, dict):
        yield f"args {args!r}"
    elif phase == "C" and not (args and all(_is_number(own) for own in args.values())):
        yield f"a counter of {args!r}"
    elif phase == "M":
        key, kind = METADATA.get(event.get("name", ""), ("", type(None)))
        if set(args) != {key} or type(args[key]) is not kind:
            yield f"metadata {event.get('name')!r} of {args!r}"


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and isfinite(value)


def _is_microseconds(value: Any) -> bool:
    """Times may have fractions; nothing here is shorter than a nanosecond."""
    return _is_number(value) and value >= 0 and abs(value * 1000 - round(value * 1000)) < 1e-3


def _ns(microseconds: float) -> int:
    return round(microseconds * 1000)


def _thread(event: Event) -> Thread:
    return event["pid"], event["tid"]


def _crossing(events: Sequence[Event]) -> Iterator[str]:
    """Complete events of a thread that share time although neither holds the other."""
    spans: dict[Thread, list[tuple[int, int, str]]] = {}
    for event in events:
        if event["ph"] == "X":
            start, end = _ns(event["ts"]), _ns(event["ts"]) + _ns(event["dur"])
            spans.setdefault(_thread(event), []).append((start, -end, event["name"]))
    for thread, own in spans.items():
        open_: list[tuple[int, str]] = []
        for start, minus_end, name in sorted(own):
            while open_ and open_[-1][0] <= start:
                open_.pop()
            if open_ and -minus_end > open_[-1][0]:
                yield f"{name!r} crosses {open_[-1][1]!r} on {thread}"
            open_.append((-minus_end, name))


def _unmatched(events: Sequence[Event]) -> Iterator[str]:
    """Begins and ends, which stand in the order of time and close the latest."""
    open_: dict[Thread, list[Event]] = {}
    last: dict[Thread, float] = {}
    for event in events:
        if event["ph"] not in "BE":
            continue
        thread = _thread(event)
        if event["ts"] < last.get(thread, 0.0):
            yield f"{event['ph']} of {thread} goes back in time"
        last[thread] = event["ts"]
        own = open_.setdefault(thread, [])
        if event["ph"] == "B":
            own.append(event)
        elif not own or event.get("name", own[-1]["name"]) != own.pop()["name"]:
            yield f"an E of {thread} ends nothing"
    yield from (
        f"{own[-1]['name']!r} of {thread} has no end" for thread, own in open_.items() if own
    )


def _unpaired(events: Sequence[Event]) -> Iterator[str]:
    """Flows and async events, by category, name and id: one begin, one end, in time."""
    chains: dict[tuple[str, str, str], list[Event]] = {}
    for event in events:
        if event["ph"] in "stfbe":
            kind = "flow" if event["ph"] in "stf" else "async"
            key = kind, f"{event['cat']} {event['name']}", str(event["id"])
            chains.setdefault(key, []).append(event)
    for (kind, name, _), own in chains.items():
        phases = "".join(event["ph"] for event in sorted(own, key=lambda event: event["ts"]))
        if not fullmatch("st*f" if kind == "flow" else "be", phases):
            yield f"{kind} {name!r} goes {phases}"


def _unnamed(events: Sequence[Event]) -> Iterator[str]:
    """Threads with events have a name, processes too; none has two."""
    named: dict[tuple[str, object], int] = {}
    for event in events:
        if event["ph"] == "M":
            of_thread = event["name"].startswith("thread")
            key = event["name"], _thread(event) if of_thread else event["pid"]
            named[key] = named.get(key, 0) + 1
    yield from (f"{key} is said {count} times" for key, count in named.items() if count > 1)
    for event in events:
        if event["ph"] in "BEXi" and ("thread_name", _thread(event)) not in named:
            yield f"{event.get('name')!r} is on a thread without a name"
            return
        if event["ph"] != "M" and ("process_name", event["pid"]) not in named:
            yield f"{event.get('name')!r} is of a process without a name"
            return
