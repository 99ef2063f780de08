"""The proof that a module is that of the plan: its parameters, its graph, or one step."""

from meshwright.runtime.torch.module_check.check import Method, ModuleCheck, check_module

__all__ = ["Method", "ModuleCheck", "check_module"]
