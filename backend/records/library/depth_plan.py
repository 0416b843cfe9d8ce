"""The depth planner: how many convolutions fit into the stages of a plain network.

The rule limits how much of the picture a layer sees (DCN, sections 4.2 to 4.6). Its c-value is the
side of its filter, on the picture, over that of its receptive field. See `plan_depth`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from backend.records.base.schema import KEY

NETWORK = "planned-network"
"""The entry of the gallery that has the planned stages."""
LEAST_C, MOST_SIDE, MOST_KERNEL = Fraction(1, 6), 8192, 99
_SMALLEST_C = Fraction(1, 100)


@dataclass(frozen=True)
class DepthStage:
    """Convolutions at one resolution.

    Attributes:
        side: The side of its pictures; pooling halves it from stage to stage.
        receptive_field: The receptive field of its last convolution, as the source counts it: k − 1
            for each convolution and nothing for pooling.
        c_value: That of its last convolution, the smallest of the stage.
    """

    convolutions: int
    side: int
    receptive_field: int = field(metadata={KEY: "sees"})
    c_value: float


@dataclass(frozen=True)
class DepthPlan:
    """The deepest network for an input side, a kernel and a smallest c-value."""

    side: int
    kernel: int
    least_c: float = field(metadata={KEY: "least"})
    as_printed: bool
    depth: int
    stages: tuple[DepthStage, ...]

    @property
    def text(self) -> str:
        """Return the stages as the network takes them: ``9-4-4-3``."""
        return "-".join(str(stage.convolutions) for stage in self.stages)

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of the entry `NETWORK`."""
        return {"side": str(self.side), "kernel": str(self.kernel), "stages": self.text}


def c_value(text: str) -> Fraction:
    """Return the smallest c-value from text such as ``1/6`` or ``0.2``.

    Raises:
        ValueError: It is no number; the message is a sentence.
    """
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(
            f"The smallest c-value “{text}” is no number such as 1/6 or 0.2."
        ) from None


def plan_depth(
    side: int, kernel: int, least_c: Fraction = LEAST_C, *, as_printed: bool = False
) -> DepthPlan:
    """Return the stages a₁ … aₙ with the largest sum, exactly.

    Every stage has a convolution. For each l ≤ n, Σ_{i≤l} aᵢ 2^(i−1) is at most
    2^(l−1) k / (t (k−1)), with which no c-value is below t and for which the relaxed optimum of the
    source holds, and Σ_{i≤n} aᵢ 2^(i−1) is at most z / (k−1).

    To fill the stages from the first one on is optimal: a convolution moved to an earlier stage
    with room costs less, and raises no later sum. Of equally deep plans it is the one with the most
    convolutions in early stages.

    Args:
        side: z, the side of a picture.
        kernel: k, the side of a filter.
        least_c: t, the smallest c-value.
        as_printed: Take twice that limit, 2^l k / (t (k−1)), which the source prints and with which
            c-values are as low as t / 2.

    Raises:
        ValueError: There is no plan; the message is a sentence.
    """
    _check_input(side, kernel, least_c)
    cost_limit = Fraction(kernel, kernel - 1) / least_c * (2 if as_printed else 1)
    stages: list[DepthStage] = []
    used_cost, cost = 0, 1
    while True:
        max_cost = min(cost_limit * cost, Fraction(side, kernel - 1))
        convolutions = (max_cost - used_cost) // cost
        if not convolutions:
            break
        used_cost += convolutions * cost
        receptive_field = used_cost * (kernel - 1)
        stages.append(
            DepthStage(
                convolutions, -(-side // cost), receptive_field, kernel * cost / receptive_field
            )
        )
        cost *= 2
    depth = sum(stage.convolutions for stage in stages)
    return DepthPlan(side, kernel, float(least_c), as_printed, depth, tuple(stages))


def _check_input(side: int, kernel: int, least_c: Fraction) -> None:
    if kernel < 2:
        raise ValueError(
            f"A kernel of {kernel} sees no neighbours and sets no limit: take 2 or more."
        )
    if kernel > MOST_KERNEL:
        raise ValueError(f"A kernel of {kernel} is too large: take {MOST_KERNEL} or less.")
    if side < kernel:
        raise ValueError(
            f"A side of {side} is smaller than the kernel of {kernel}: enlarge the side."
        )
    if side > MOST_SIDE:
        raise ValueError(f"A side of {side} is too large: take {MOST_SIDE} or less.")
    if not _SMALLEST_C <= least_c <= 1:
        raise ValueError(f"The smallest c-value must be from {_SMALLEST_C} to 1, not {least_c}.")
