"""Every call by which kernels and rules are proved."""

import numpy as np

from tests.solver.verification.execution import (
    array_cases,
    kernel_cases,
    network_cases,
    quantised_cases,
    recurrent_cases,
    special_cases,
    transform_cases,
)
from tests.solver.verification.execution.kernel_cases import case, positive, real, whole

# what torch has a meaning for
CASES = [
    *kernel_cases.CASES,
    *special_cases.CASES,
    *array_cases.CASES,
    *transform_cases.CASES,
    *quantised_cases.CASES,
    *network_cases.CASES,
    *recurrent_cases.CASES,
]

CHOICES = whole(4, 2, 6, 2)
EXPERTS = [
    case("moe_dispatch", real(2, 6, 3), CHOICES, shapes=((4, 2, 3, 3),)),
    case("moe_combine", real(4, 2, 3, 3), CHOICES, real(2, 6, 2), shapes=((2, 6, 3),)),
]
RANDOM = [
    case("random_uniform", shapes=((4, 6),), low=-1.0, high=3.0),
    case("random_normal", shapes=((4, 6),), seed=3),
    case("random_normal", np.array([4, 6]), shapes=((4, 6),)),
    case("random_gamma", positive(6), positive(6), shapes=((4, 6),)),
    case("random_gamma", positive(4, 1), positive(6), shapes=((3, 4, 6),)),
    case("get_next", shapes=((4, 3), (4,))),
    case("get_next", shapes=((4, 3), (2,))),
]
ALL = [*CASES, *EXPERTS, *RANDOM]
