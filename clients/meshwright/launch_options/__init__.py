"""Launch options: the uniform part of a plan as options of an existing launcher."""

from meshwright.launch_options.export import LAUNCHERS, Launch, Launcher, launch_of
from meshwright.launch_options.uniform import uniform_of
from meshwright.schema.uniform_degrees import Difference, Uniform

__all__ = [
    "LAUNCHERS", "Difference", "Launch", "Launcher", "Uniform", "launch_of", "uniform_of",
]  # fmt: skip
