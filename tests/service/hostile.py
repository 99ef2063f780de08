"""Bodies of people who mean harm, each with the answer that it gets. Sizes are those of LIMITS."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import zstandard

from tests.service.samples import GRAPH, TOPOLOGY, graph, request

MB = 1 << 20
LIMITS = {
    "MESHWRIGHT_MAX_BODY_BYTES": str(16 * MB),
    "MESHWRIGHT_MAX_BODY_VALUES": "1500000",
    "MESHWRIGHT_MAX_STRING_CHARS": "4096",
    "MESHWRIGHT_HEADERS_S": "1",
    "MESHWRIGHT_BODY_S": "1",
}
WHOLE = json.dumps(GRAPH).encode()
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"skip"


@dataclass(frozen=True, slots=True)
class Hostile:
    """A request and the problem that answers it. body: made when it is sent, some are large."""

    name: str
    body: Callable[[], bytes]
    status: int
    slug: str
    pointer: str = ""
    path: str = "/v1/graphs"
    encoding: str | None = None


def corpus() -> Iterator[Hostile]:
    """All of them."""
    for name, encoding, body in _packed():
        status, slug = (413, "too-large") if "bomb" in name else (400, "damaged-body")
        yield Hostile(name, body, status, slug, encoding=encoding)
    for encoding in ("br", "deflate", "gzip, gzip", "zstd, gzip", "gzip," * 100, "\\x00"):
        yield Hostile(
            f"content encoding {encoding[:12]}", lambda: WHOLE, 415, "unsupported-media-type",
            encoding=encoding,
        )  # fmt: skip
    for name, text in _not_json():
        yield Hostile(name, lambda text=text: text, 400, "not-json")
    for name, make, pointer in _too_large():
        yield Hostile(name, make, 413, "too-large", pointer)
    for shelf, slug, made in (
        ("graphs", "invalid-graph", _graphs()),
        ("topologies", "invalid-topology", _topologies()),
        ("plan", "invalid-request", _requests()),
    ):
        for name, value, pointer, *own in made:
            yield Hostile(
                name,
                lambda value=value: json.dumps(value).encode(),
                422 if not own or own[0] != "too-large" else 413,
                own[0] if own else slug,
                pointer,
                path=f"/v1/{shelf}",
            )


def _packed() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    gzipped, packed = gzip.compress(WHOLE, mtime=0), zstandard.compress(WHOLE)
    zeros = bytes(MB)
    window = b"\x28\xb5\x2f\xfd\x00\xf8"  # a window of 2 TiB, declared in two bytes
    size = b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 7 + b"\x7f"  # a content of 8 EiB
    yield "gzip bomb", "gzip", lambda: gzip.compress(zeros * 256, 1)
    yield (
        "gzip bomb of spaces around a graph",
        "gzip",
        lambda: gzip.compress(b" " * (64 * MB) + WHOLE, 1),
    )
    yield "gzip of a gzip bomb, read once", "gzip", lambda: gzip.compress(zeros * 17)
    yield "zstd bomb", "zstd", lambda: zstandard.compress(zeros * 512)
    yield "zstd bomb without a declared size", "zstd", lambda: _streamed(256)
    yield "gzip cut off", "gzip", lambda: gzipped[:-9]
    yield "gzip of nothing", "gzip", lambda: b""
    yield "gzip whose checksum is wrong", "gzip", lambda: gzipped[:-8] + bytes(8)
    yield "gzip of several members", "gzip", lambda: gzipped * 50
    yield "gzip whose file name never ends", "gzip", lambda: gzipped[:3] + b"\x08" + b"a" * MB
    yield "gzip that is zstd", "gzip", lambda: packed
    yield "zstd cut off", "zstd", lambda: packed[:-1]
    yield "zstd of nothing", "zstd", lambda: b""
    yield "zstd of several frames", "zstd", lambda: packed * 50
    yield "zstd behind a frame to skip", "zstd", lambda: SKIPPABLE * 1000 + packed
    yield "zstd with a declared window of 2 TiB", "zstd", lambda: window + bytes(64)
    yield "zstd with a declared size of 8 EiB", "zstd", lambda: size + bytes(64)
    yield "zstd with a flipped bit", "zstd", lambda: packed[:30] + b"\xff\xff" + packed[32:]
    yield "zstd that is gzip", "zstd", lambda: gzipped


def _streamed(megabytes: int) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    parts = [stream.compress(bytes(MB)) for _ in range(megabytes)]
    return b"".join([*parts, stream.flush()])


def _not_json() -> Iterator[tuple[str, bytes]]:
    yield "nothing", b""
    yield "spaces", b" " * MB
    yield "an open brace", b"{"
    yield "a hundred thousand open arrays", b"[" * 100_000
    yield "a hundred thousand open objects", b'{"a":' * 100_000
    yield "an integer of 5,000 digits", b'{"a": ' + b"9" * 5000 + b"}"
    yield "an integer of a million digits", b'{"a": ' + b"9" * 1_000_000 + b"}"
    yield "a float that overflows", b'{"a": 1e400}'
    yield "a float with a huge exponent", b'{"a": -1e' + b"9" * 4000 + b"}"
    for constant in (b"NaN", b"Infinity", b"-Infinity"):
        yield constant.decode(), b'{"a": ' + constant + b"}"
    yield "a field given twice", b'{"ops": [], "ops": [1]}'
    yield "a field given twice, once escaped", b'{"ops": [], "\\u006fps": [1]}'
    yield "a comma too many", b'{"a": 1,}'
    yield "two documents", WHOLE + WHOLE
    yield "single quotes", b"{'a': 1}"
    yield "a comment", b'{"a": 1} // that is all'
    yield "a hexadecimal number", b'{"a": 0x10}'
    yield "a leading zero", b'{"a": 010}'
    yield "a newline in a string", b'{"a": "\n"}'
    yield "NUL between values", b'{"a": 1\x00}'
    yield "a byte order mark", b"\xef\xbb\xbf" + WHOLE
    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        yield encoding, WHOLE.decode().encode(encoding)
    yield "Latin-1", '{"name": "é"}'.encode("latin-1")
    yield "UTF-8 longer than it needs to be", b'{"name": "\xc0\xaf"}'
    yield "surrogates in UTF-8", b'{"name": "\xed\xa0\x80"}'
    yield "a pickle", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00cposix\nsystem\n."
    yield "an array", b"[" + WHOLE + b"]"
    yield "a string", b'"graph"'
    yield "null", b"null"


def _too_large() -> Iterator[tuple[str, Callable[[], bytes], str]]:
    yield "17 MB", lambda: b" " * (17 * MB), ""
    yield "two million empty arrays", lambda: b'{"ops": [' + b"[]," * 2_000_000 + b"1]}", ""
    yield "two million empty objects", lambda: b'{"ops": [' + b"{}," * 2_000_000 + b"1]}", ""
    yield "a million ops", lambda: b'{"name": "x", "ops": [' + b"{}," * 700_000 + b"{}]}", "/ops"
    yield "a string of 10 MB", lambda: json.dumps(graph(name="a" * (10 * MB))).encode(), "/name"
    yield (
        "a long string in an attribute",
        lambda: json.dumps(_op(attrs={"a": ["b", "c" * 5000]})).encode(),
        "/ops/0/attrs/a/1",
    )
    yield (
        "a hundred thousand unknown fields",
        lambda: json.dumps(graph(**{f"f{i}": 1 for i in range(100_000)})).encode(),
        "",
    )
    yield "a long name of a field", lambda: json.dumps(graph(**{"b" * MB: 1})).encode(), ""
    yield (
        "an attribute of 100 levels",
        lambda: json.dumps(_op(attrs={"a": _nested(100)})).encode(),
        "/ops/0/attrs/a" + "/0" * 68,
    )


def _nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _op(**changes: Any) -> dict[str, Any]:
    made = graph()
    made["ops"][0].update(changes)
    return made


def _tensor(**changes: Any) -> dict[str, Any]:
    made = graph()
    made["tensors"][0].update(changes)
    return made


def _graphs() -> Iterator[tuple[Any, ...]]:
    shape = "/tensors/0/shape"
    yield "an op that reads itself", _op(inputs=["h", "w.0"]), "/ops/0"
    yield "a cycle", _cycle(), "/ops/1"
    yield "a size of 4,000 digits", _tensor(shape=[10**3999, 4]), f"{shape}"
    yield "a negative size", _tensor(shape=[-4, 4]), shape
    yield "a size of zero", _tensor(shape=[0, 4]), shape
    yield "a size in a float", _tensor(shape=[1e300, 4]), f"{shape}/0"
    yield "a size that is true", _tensor(shape=[True, 4]), f"{shape}/0"
    yield "a tensor of 2^480 elements", _tensor(shape=[2**30] * 16), "/tensors/0/shape"
    yield "a tensor of 1,000 dims", _tensor(shape=[1] * 1000), shape
    yield "a size that is code", _tensor(shape=["__import__('os').system('id')", 4]), shape
    yield "a power in a size", _tensor(shape=["batch**batch**batch", 4]), shape
    yield "a division by zero", _tensor(shape=["batch//0", 4]), shape
    yield "a size of 4,000 characters", _tensor(shape=["batch*" * 600 + "1", 4]), shape
    yield "a size of open parentheses", _tensor(shape=["(" * 199, 4]), shape
    yield "a size of minus signs", _tensor(shape=["-" * 199 + "1", 4]), shape
    yield "a symbol that is code", graph(symbols={**GRAPH["symbols"], "id()": 1}), "/symbols"
    yield "a rule of brackets", _op(rule="(" * 3000), "", "invalid-rule"
    yield "a rule of commas", _op(rule="," * 3000), "", "invalid-rule"
    yield "NUL in a name", graph(name="a\0b"), "/name"
    yield "an escape sequence in a name", graph(name="\x1b]0;mine\x07"), "/name"
    yield "a name from right to left", graph(name="\u202egnp.exe"), "/name"
    yield "half a character in a name", graph(name="\ud800"), "/name"
    yield "half a character in an attribute", _op(attrs={"a": "\udfff"}), "/ops/0/attrs"
    yield "ops in an object", graph(ops={"0": {}}), "/ops"
    yield "no ops, but null", graph(ops=None), "/ops"
    yield "a prototype", graph(__proto__={"admin": True}), "/__proto__"
    yield "a field that is a path", graph(**{"../../etc": 1}), "/..~1..~1etc"
    yield "half a million wrong notes", graph(notes=[1] * 500_000), "/notes/0"
    yield "150,000 wrong ops", graph(ops=[{}] * 150_000), "/ops/0/name"
    yield "half a million sizes that are null", _tensor(shape=[None] * 500_000), f"{shape}/0"
    yield "a version to come", graph(schema_version=2**40), "/schema_version"


def _cycle() -> dict[str, Any]:
    made = graph()
    made["ops"][0]["inputs"] = ["y", "w.0"]
    return made


def _level(**changes: Any) -> dict[str, Any]:
    return {**TOPOLOGY["levels"][0], **changes}


def _topologies() -> Iterator[tuple[Any, ...]]:
    def of(*levels: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return {**TOPOLOGY, "levels": list(levels) or TOPOLOGY["levels"], **changes}

    link = TOPOLOGY["levels"][0]["link"]
    device = TOPOLOGY["device"]
    yield "a billion ranks", of(_level(size=10**9)), "/levels"
    yield (
        "levels whose product overflows",
        of(*(_level(name=f"l{i}", size=2**20) for i in range(60))),
        "/levels",
    )
    yield "a level of minus one", of(_level(size=-1)), "/levels/0/size"
    yield "a level of zero", of(_level(size=0)), "/levels/0/size"
    yield "a level whose size is text", of(_level(size="8")), "/levels/0/size"
    yield "no levels", {**TOPOLOGY, "levels": []}, "/levels"
    yield (
        "a link of no bytes a second",
        of(_level(link={**link, "bytes_per_s": 0})),
        ("/levels/0/link/bytes_per_s"),
    )
    yield (
        "a latency before the beginning",
        of(_level(link={**link, "latency_ns": -1})),
        ("/levels/0/link/latency_ns"),
    )
    yield (
        "memory of minus a byte",
        of(device={**device, "memory_bytes": -1}),
        ("/device/memory_bytes"),
    )
    yield (
        "memory of 4,000 digits",
        of(device={**device, "memory_bytes": 10**3999}),
        ("/device/memory_bytes"),
    )
    yield (
        "speed of 400 digits",
        of(device={**device, "memory_bytes_per_s": 10**400}),
        ("/device/memory_bytes_per_s"),
    )


def _requests() -> Iterator[tuple[Any, ...]]:
    yield (
        "a preset that is a path",
        request(topology="../../etc/passwd"),
        "/topology",
        ("invalid-topology"),
    )
    yield (
        "a preset of a billion devices",
        request(topology="h100-1000000000x8"),
        "/topology",
        ("invalid-topology"),
    )
    yield "a solver that is a module", request(solver="os:system"), "/solver"
    yield "an unknown constraint", request(constraints={"eval": "1"}), "/constraints/eval"
    yield "a budget for ever", request(budget={"seconds": 1e18}), "/budget/seconds"
    yield "a budget that is true", request(budget={"seconds": True}), "/budget/seconds"
    yield "degrees of a billion", request(degrees={"tp": 10**9}), "/degrees/tp"
    yield "steps before the beginning", request(from_plan="plan_0", steps=-1), "/steps"
    yield "a plan that is a path", request(from_plan="../plans"), "/from_plan"
    yield "10,000 pins", request(pins=[{"op": "*", "strategy": {}}] * 10_000), "/pins"
    yield "a pin of 4,000 stars", request(pins=[{"op": "*a" * 2000, "strategy": {}}]), "/pins/0/op"
    yield (
        "a pin that no regex bears",
        request(pins=[{"op": "*a" * 250 + "!", "strategy": {}}]),
        ("/pins/0/op"),
    )
    yield "a graph that is an id with NUL", request(graph="graph_\0"), "/graph"
    yield "a graph that is half a character", request(graph="graph_\ud800"), "/graph"
    yield "a plan that is an id with NUL", request(from_plan="plan_\0"), "/from_plan"
