"""Transfers as text: bytes and time of the move, and a table of the tensors."""

from __future__ import annotations

from collections import Counter

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from meshwright.common.name_ranges import pattern
from meshwright.common.units import show_bytes, show_ns, show_share
from meshwright.render.axes import AxisNames
from meshwright.schema.transfer import DeviceTransfer, Piece, Stretch, Transfer

NAMED = 3  # chosen: kinds of tensors named in a line


def render_transfer(transfer: Transfer) -> RenderableType:
    """Totals, and a line per group of tensors with the same move, the most bytes first."""
    lines = sorted(transfer.tensors, key=lambda line: -line.moved_bytes)
    table = _table("Tensors that move", "tensors", "state", "from", "to", "moved", "share", "sends")
    for line in lines:
        if line.moved_bytes:
            table.add_row(
                _names(line.tensors),
                line.state,
                AxisNames(transfer.places[line.source_place].mesh).layout(line.source),
                AxisNames(transfer.places[line.target_place].mesh).layout(line.target),
                show_bytes(line.moved_bytes),
                show_share(line.moved_bytes / transfer.moved_bytes),
                f"{line.sends:,}",
            )
    parts: list[RenderableType] = [Text("\n".join(_summary(transfer)))]
    if transfer.moved_bytes:
        parts.append(table)
    unmoved = sum(len(line.tensors) for line in lines if not line.moved_bytes)
    if unmoved:
        parts.append(Text(f"{unmoved} tensors stay where they are"))
    return Group(*parts)


def render_device(device: DeviceTransfer) -> RenderableType:
    """The sends and receives of one device, by wave."""
    table = _table(f"Device {device.device}", "wave", "", "tensors", "state", "each", "indices")
    for piece in sorted((*device.sends, *device.receives), key=lambda piece: piece.wave):
        sends = piece.source == device.device
        table.add_row(
            str(piece.wave),
            f"to {piece.target}" if sends else f"from {piece.source}",
            _names(piece.tensors),
            piece.state,
            show_bytes(piece.bytes),
            _box(piece),
        )
    parts: list[RenderableType] = [table] if device.sends or device.receives else []
    for word, pieces in (
        ("sends", device.sends), ("receives", device.receives), ("keeps", device.keeps),
    ):  # fmt: skip
        total = sum(piece.bytes * len(piece.tensors) for piece in pieces)
        parts.append(Text(f"device {device.device} {word} {show_bytes(total)}"))
    for fill in device.fills:
        parts.append(Text(f"fills {_names(fill.tensors)} with {fill.value}"))
    return Group(*parts)


def _summary(transfer: Transfer) -> list[str]:
    def devices(place: int) -> int:
        return len(transfer.places[place].ranks)

    if not transfer.tensors:
        return ["the plans have no parameters: nothing moves"]
    first = transfer.tensors[0]
    lines = [
        f"from    {transfer.from_plan or 'a mesh'}: {devices(first.source_place)} devices",
        f"to      {transfer.to_plan or 'a mesh'}: {devices(first.target_place)} devices",
        f"moves   {show_bytes(transfer.moved_bytes)} in {transfer.sends:,} sends; of "
        f"{show_bytes(transfer.needed_bytes)} needed {show_bytes(transfer.kept_bytes)} are in "
        "place: no transfer moves less",
        f"time    {show_ns(transfer.ns)}",
    ]
    if transfer.reduction_ns:
        lines[-1] += f", of which {show_ns(transfer.reduction_ns)} to reduce partial values first"
    if transfer.busiest is not None:
        busy = transfer.busiest
        way = "into" if busy.direction == "in" else "out of"
        lines[-1] += (
            f"; the busiest link, {busy.level} {way} device {busy.device}, carries "
            f"{show_bytes(busy.bytes)}"
        )
    return [*lines, *(f"note: {note}" for note in transfer.notes)]


def _names(tensors: tuple[str, ...]) -> str:
    kinds = Counter(pattern(name) for name in tensors)
    if len(tensors) == 1:
        return tensors[0]
    texts = [kind if count == 1 else f"{kind} ×{count}" for kind, count in kinds.items()]
    more = f", {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more


def _box(piece: Piece) -> str:
    return f"[{', '.join(' '.join(map(_run, dim)) for dim in piece.dims)}]"


def _run(run: Stretch) -> str:
    """`first:stop`, with `+step×count` for several stretches."""
    repetition = f"+{run.step}×{run.count}" if run.count > 1 else ""
    return f"{run.first}:{run.first + run.length}{repetition}"


def _table(title: str, *columns: str) -> Table:
    table = Table(
        title=f"\n{title}", title_justify="left", title_style="bold", box=SIMPLE_HEAD,
        pad_edge=False, padding=(0, 1),
    )  # fmt: skip
    for column in columns:
        number = column in ("moved", "share", "sends", "each", "wave")
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    return table
