"""Launch options: the uniform part of a plan as options of an existing launcher."""

from meshwright.launch_options.choices import LauncherChoices
from meshwright.launch_options.export import Launch, choices_of, launch_of, lost_of
from meshwright.launch_options.uniform import dtype_of, uniform_of
from meshwright.schema.uniform_degrees import Difference, Uniform

__all__ = [
    "Difference",
    "Launch",
    "LauncherChoices",
    "Uniform",
    "choices_of",
    "dtype_of",
    "launch_of",
    "lost_of",
    "uniform_of",
]  # fmt: skip
