"""Launch options: the uniform part of a plan for people who keep their launcher."""

from meshwright.launch.export import LAUNCHERS, Launch, Launcher, launch_of
from meshwright.launch.uniform import uniform_of
from meshwright.schema.uniform import Difference, Uniform

__all__ = [
    "LAUNCHERS", "Difference", "Launch", "Launcher", "Uniform", "launch_of", "uniform_of",
]  # fmt: skip
