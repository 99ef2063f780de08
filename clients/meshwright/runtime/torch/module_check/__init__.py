"""The proof that a module is that of the plan: its parameters, its graph, or one step."""

from meshwright.runtime.torch.module_check.check import Method, ModuleCheck, compare_module

__all__ = ["Method", "ModuleCheck", "compare_module"]
