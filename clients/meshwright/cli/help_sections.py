"""Headings of `--help`: options and commands in sections, and examples at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup

from meshwright.cli.help_examples import EXAMPLES

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

OPTION_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Model and batch": (
        "batch", "seq", "microbatches", "microbatch_size", "phase", "cache", "gradients",
        "dataset", "precision", "setup",
    ),
    "Cluster and cost model": ("topology", "calibration", "stack"),
    "Parallelism": (
        "target", "dp", "tp", "pp", "vpp", "cp", "ep", "sequence_parallel", "copies", "uneven",
        "sequence_order",
    ),
    "Pipeline": (
        "pipeline", "schedule", "stages_per_rank", "cut", "stage_layers", "first_stage_layers",
        "last_stage_layers",
    ),
    "Strategies of ops": (
        "pin", "from_plan", "keep", "strategies", "strategy_names", "module", "rest",
        "fully_use_devices", "elementwise_follow", "slice_alignment",
    ),
    "Mixture of experts": ("expert_imbalance", "expert_dispatch", "expert_nodes"),
    "Memory": (
        "zero", "zero_size", "optimizer_level", "optimizer_shard_size", "optimizer_threshold",
        "optimizer_whole_parameters", "optimizer_unsharded", "gradient_accumulation_shard",
        "offload", "recompute", "recompute_blocks", "recompute_ops", "recompute_communication",
        "sparse_gradients",
    ),
    "Communication": ("all_to_all", "fusion"),
    "Search": (
        "fresh", "max_age", "solver", "budget", "axes", "workers", "simplicity", "unrestricted",
    ),
}  # fmt: skip
COMMAND_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Make plans": ("capture", "plan", "sweep", "estimate", "replan", "solve"),
    "Read plans": ("show", "compare", "explain", "simulate", "verify"),
    "Use plans": ("export", "transfer"),
    "Measure a cluster": ("agent", "agents", "measure", "fit", "calibrations"),
    "Documents": ("topologies", "validate"),
}
REST = "Options"  # of options that no section names


class SectionedCommand(TyperCommand):
    """A command with more than a screen of options shows them in sections."""

    longest_list = 14  # options; chosen: with their texts these fill a screen of 40 lines

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        records = [
            (parameter, record)
            for parameter in self.get_params(ctx)
            if (record := parameter.get_help_record(ctx)) is not None
        ]
        if len(records) <= self.longest_list:
            super().format_options(ctx, formatter)
            return
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], REST: []}
        for parameter, record in records:
            is_argument = parameter.param_type_name == "argument"
            section = "Arguments" if is_argument else section_of(parameter.name or "")
            sections.setdefault(section, []).append(record)
        _write(formatter, sections, order=("Arguments", REST, *OPTION_SECTIONS))

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        _, _, command = ctx.command_path.partition(" ")
        if command not in EXAMPLES:
            return
        with formatter.section("Examples"):
            for line in EXAMPLES[command]:  # commands are not wrapped: a reader copies them
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")


class SectionedGroup(TyperGroup):
    """The program: its commands by the task that they serve."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names))
        texts = {
            name: command.get_short_help_str(width)
            for name in names
            if (command := self.get_command(ctx, name)) is not None and not command.hidden
        }
        sections = {
            heading: [(name, texts.pop(name)) for name in listed if name in texts]
            for heading, listed in COMMAND_SECTIONS.items()
        }
        _write(formatter, {**sections, "Commands": list(texts.items())}, order=())


def section_of(parameter: str) -> str:
    """The heading of an option, by the name of its parameter."""
    return next((head for head, names in OPTION_SECTIONS.items() if parameter in names), REST)


def _write(
    formatter: HelpFormatter,
    sections: Mapping[str, list[tuple[str, str]]],
    *,
    order: Iterable[str],
) -> None:
    headings = dict.fromkeys((*order, *sections))
    for heading in headings:
        records = sections.get(heading)
        if records:
            with formatter.section(heading):
                formatter.write_dl(records)
