"""MindSpore's strategy files: the cuts of the inputs of every operator, as JSON or protobuf.

MindSpore writes them where `strategy_ckpt_save_file` or `save_operator_strategy_file` names a file:
JSON by the suffix `.json`, otherwise protobuf (`mindspore/ccsrc/utils/node_strategy.proto`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from meshwright.common.files import read_text
from meshwright.convert.strategy import Cuts
from meshwright.schema import ConversionError, Model, Unavailable

_SUFFIXES = (".gz", ".zst")
_MESSAGES = {  # by message: fields with number, type and whether they are repeated
    "ParallelStrategy": (("dim", 1, "uint32", True),),
    "ParallelStrategys": (
        ("stage", 1, "uint32", False),
        ("parallel_strategy", 2, "ParallelStrategy", True),
    ),
    "ParallelStrategyItem": (
        ("node_name", 1, "string", False),
        ("parallel_strategys", 2, "ParallelStrategys", False),
    ),
    "ParallelStrategyMap": (
        ("current_stage", 1, "uint32", False),
        ("parallel_strategy_item", 2, "ParallelStrategyItem", True),
    ),
}
_PACKAGE = "mindspore.straspb"


class OperatorCuts(Model):
    """The cuts of the inputs of one operator.

    outputs: the cuts of its results, where the file states them. stage: its pipeline stage.
    """

    inputs: Cuts
    outputs: Cuts | None = None
    stage: int = 0


class StrategyFile(Model):
    """The strategies of a file of MindSpore, by the full name of the operator."""

    operators: dict[str, OperatorCuts]


def read_strategy_file(path: Path) -> StrategyFile:
    """The strategies in a file of MindSpore; raises ConversionError for any other content."""
    content = read_text(path)
    suffix = Path(path.stem).suffix if path.suffix in _SUFFIXES else path.suffix
    is_json = suffix == ".json" or content.lstrip()[:1] == b"{"
    try:
        return strategies_of_json(json.loads(content)) if is_json else _of_protobuf(content)
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as failure:
        raise ConversionError(
            f"{path} is not a strategy file of MindSpore: {_reason(failure)}. Use a file that "
            "MindSpore or `meshwright export --to mindspore-strategies` wrote"
        ) from None


def strategies_of_json(content: Mapping[str, Any]) -> StrategyFile:
    """The strategies in MindSpore's JSON. Layouts of inputs replace their cuts."""
    items = content["parallel_strategy_item"]
    results = content.get("parallel_out_strategy_item", {})
    layouts = content.get("parallel_layout_value_item", {})
    result_layouts = content.get("parallel_out_layout_value_item", {})
    operators = {}
    for name in {**items, **layouts}:
        inputs = items[name]["parallel_strategy"] if name in items else []
        outputs = results[name]["parallel_strategy"] if name in results else None
        if name in layouts:
            inputs = _cuts_of_layouts(layouts[name], inputs)
        if name in result_layouts:
            outputs = _cuts_of_layouts(result_layouts[name], outputs or [])
        stage = items.get(name, {}).get("stage", 0)
        operators[name] = OperatorCuts.model_validate(
            {"inputs": inputs, "outputs": outputs, "stage": stage}
        )
    return StrategyFile(operators=operators)


def _cuts_of_layouts(
    layouts: Mapping[str, Mapping[str, Any]], cuts: Sequence[Sequence[int]]
) -> list[list[int]]:
    """The cuts of tensors by Layouts of some of them; `cuts` are those of the others."""
    stated = {int(place): layout for place, layout in layouts.items()}
    count = max(len(cuts), *(place + 1 for place in stated))
    return [
        _cuts_of_layout(stated[place]) if place in stated else list(cuts[place])
        for place in range(count)
    ]


def _cuts_of_layout(layout: Mapping[str, Any]) -> list[int]:
    """The number of parts of each dim; a position counts from the right of the device matrix."""
    matrix = layout["dev_matrix"]
    return [
        prod(matrix[len(matrix) - 1 - position] for position in positions if position >= 0)
        for positions in layout["tensor_map"]
    ]


def _of_protobuf(content: bytes) -> StrategyFile:
    try:
        from google.protobuf.message import DecodeError
    except ImportError:
        raise Unavailable(
            "strategy files in protobuf are not available: protobuf is not installed. Run pip "
            "install 'meshwright[protobuf]', or have MindSpore write a file with the suffix .json"
        ) from None
    message = _message_class()()
    try:
        message.ParseFromString(content)
    except DecodeError as failure:
        raise ValueError(f"it is neither JSON nor its protobuf ({failure})") from None
    operators = {
        item.node_name: OperatorCuts(
            inputs=tuple(tuple(cuts.dim) for cuts in item.parallel_strategys.parallel_strategy),
            stage=item.parallel_strategys.stage,
        )
        for item in message.parallel_strategy_item
    }
    if not operators:
        raise ValueError("it has no strategy of an operator")
    return StrategyFile(operators=operators)


def _message_class() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    scalars = {"uint32": field.TYPE_UINT32, "string": field.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(
        name="node_strategy.proto", package=_PACKAGE, syntax="proto2"
    )
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for name, number, kind, is_repeated in fields:
            message.field.add(
                name=name,
                number=number,
                label=field.LABEL_REPEATED if is_repeated else field.LABEL_REQUIRED,
                type=scalars.get(kind, field.TYPE_MESSAGE),
                type_name=None if kind in scalars else f".{_PACKAGE}.{kind}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.ParallelStrategyMap")
    return message_factory.GetMessageClass(found)


def _reason(failure: Exception) -> str:
    if isinstance(failure, KeyError):
        return f"it has no {failure.args[0]!r}"
    if isinstance(failure, ValidationError):
        return str(failure.errors()[0]["msg"])
    return str(failure)
