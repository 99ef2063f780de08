"""Eight host devices in a process of their own: each case trains ten steps beside one device.

Run as a program, with a folder that holds `cases.json`; it leaves `outcomes.json` there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROWS, STEPS = 16, 10
# The compiler for CPUs drops the barriers that keep what is made again apart from what it is a
# copy of, and merges the two; those for GPUs and TPUs keep them.
# Machine code is made in the shortest time.
FLAGS = (
    "--xla_force_host_platform_device_count=8 --xla_disable_hlo_passes=cse_barrier_expander "
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
)


@dataclass(frozen=True)
class Case:
    """A plan file, the model that it is of, and how it is carried out."""

    name: str
    model: str
    plan: str
    form: str
    microbatches: int
    dtype: str


@dataclass(frozen=True)
class Outcome:
    """Of one case: the largest difference of a loss, and of a gradient and of a parameter after all
    steps as a share of its norm; the compiled step's collectives: kind, groups, elements, times."""

    loss_error: float
    gradient_error: float
    parameter_error: float
    collectives: list[Any]
    fallen_back: dict[str, str]
    shards: dict[str, list[int]]


def run_devices(cases: Sequence[Case], folder: Path, example: str = "") -> dict[str, Outcome]:
    """All cases in one process; CalledProcessError with what it said where it fails.

    example: a program that is run after them, in the folder, with the first model's `loss`,
    `params` and `batches`.
    """
    (folder / "cases.json").write_text(json.dumps([asdict(case) for case in cases]))
    (folder / "example.py").write_text(example)
    environment = {**os.environ, "XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.runtime.jax.devices", str(folder)],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found = json.loads((folder / "outcomes.json").read_text())
    return {name: Outcome(**own) for name, own in found.items()}


def _main(folder: Path) -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    from tests.runtime.jax import models

    cases = [Case(**own) for own in json.loads((folder / "cases.json").read_text())]
    found = {case.name: asdict(_trained(case)) for case in cases}
    (folder / "outcomes.json").write_text(json.dumps(found))
    os.chdir(folder)
    given = {
        "loss": models.FUNCTIONS[cases[0].model],
        "params": models.parameters(cases[0].model),
        "batches": [models.batch(ROWS, step) for step in range(2)],
    }
    exec((folder / "example.py").read_text(), given)


def _trained(case: Case) -> Outcome:
    """Ten steps of AdamW on the shards, beside the same on whole arrays."""
    import jax

    from meshwright.runtime.jax import collectives_of, parallelize
    from tests.runtime.jax import models

    function = models.FUNCTIONS[case.model]
    alone = _alone(case.model, case.microbatches, case.dtype)
    first = models.batch(ROWS, 0)
    sharded = parallelize(function, (alone.start, *first), case.plan, form=case.form)  # type: ignore[arg-type]  # read from JSON
    values = sharded.place(alone.start)
    states = _started(values)
    compiled = sharded.value_and_grad.lower(values, sharded.batch(*first)).compile()
    text = compiled.as_text()
    assert text is not None
    update = jax.jit(_updated)
    loss_error, gradient_error = 0.0, 0.0
    for step, (expected, wanted) in enumerate(alone.steps):
        loss, gradients = compiled(values, sharded.batch(*models.batch(ROWS, step)))
        loss_error = max(loss_error, abs(float(loss - expected)))
        found = sharded.tree(gradients, alone.start)
        gradient_error = max(gradient_error, _difference(found, wanted))
        values, states = update(values, gradients, states, step)
    return Outcome(
        loss_error,
        gradient_error,
        _difference(sharded.tree(values, alone.start), alone.end),
        [[c.kind, c.groups, c.elements, c.times] for c in collectives_of(text)],
        dict(sharded.fallen_back),
        {name: list(own.addressable_shards[0].data.shape) for name, own in states[0].items()},
    )


@dataclass(frozen=True)
class Alone:
    """Training on one device: parameters before and after, and by step the loss and gradients."""

    start: Any
    steps: list[tuple[Any, Any]]
    end: Any


@cache
def _alone(model: str, microbatches: int, dtype: str) -> Alone:
    """Of whole arrays; once for all plans of a model."""
    import jax
    import jax.numpy as jnp

    from tests.runtime.jax import models

    function = models.FUNCTIONS[model]

    def mean(params: Any, ids: Any, labels: Any) -> Any:
        parts = zip(*(jnp.split(own, microbatches) for own in (ids, labels)), strict=True)
        return sum(function(params, *part) for part in parts) / microbatches

    start = jax.tree.map(lambda own: own.astype(dtype), models.parameters(model))
    params, states = start, _started(start)
    update, loss_and_gradients = jax.jit(_updated), jax.jit(jax.value_and_grad(mean))
    steps = []
    for step in range(STEPS):
        loss, gradients = loss_and_gradients(params, *models.batch(ROWS, step))
        steps.append((loss, gradients))
        params, states = update(params, gradients, states, step)
    return Alone(start, steps, params)


def _difference(found: Any, wanted: Any) -> float:
    """The largest of any array's, as a share of its norm."""
    import jax
    import numpy as np

    def share(a: Any, b: Any) -> float:
        a, b = np.asarray(a), np.asarray(b)
        return float(np.linalg.norm(a - b) / np.linalg.norm(b))

    return float(max(jax.tree.leaves(jax.tree.map(share, found, wanted))))


def _started(values: Any) -> tuple[Any, Any]:
    import jax
    import jax.numpy as jnp

    return jax.tree.map(jnp.zeros_like, values), jax.tree.map(jnp.zeros_like, values)


def _updated(values: Any, gradients: Any, states: tuple[Any, Any], step: Any) -> tuple[Any, Any]:
    """AdamW. eps: what of gradients of about 1e-3 is rounding must not become steps."""
    import jax

    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, states[0], gradients)
    second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, states[1], gradients)

    def moved(value: Any, m: Any, v: Any) -> Any:
        m, v = m / (1 - 0.9 ** (step + 1)), v / (1 - 0.99 ** (step + 1))
        return value - 1e-2 * (m / (v**0.5 + 1e-4) + 0.01 * value)

    return jax.tree.map(moved, values, first, second), (first, second)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
