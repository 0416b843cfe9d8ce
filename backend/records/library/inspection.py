"""Content of a checkpoint: its weights, and their effect on one sample.

Standard library only and Python 3.9: the nodes import this.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.records.base.schema import KEY, READ, Record
from backend.records.library.preview import TOOL_RULES, ChannelStatistics, SamplePart


@dataclass(frozen=True)
class TensorValues:
    """The numbers of a tensor: how many, how many of them are zero, and their distribution."""

    count: int
    zeros: int
    spread: ChannelStatistics

    @property
    def zero_share(self) -> float:
        return self.zeros / self.count if self.count else 0.0


@dataclass(frozen=True)
class WeightRow:
    """A parameter. ``change`` is the difference to the other checkpoint, None without one.

    ``gradient`` is that of one batch with these weights, None if the batch gave it none.
    """

    name: str
    shape: tuple[int, ...]
    is_trained: bool = field(metadata={KEY: "trained"})
    values: TensorValues
    change: TensorValues | None = None
    gradient: TensorValues | None = None


@dataclass(frozen=True)
class ActivationRow:
    """The output of a layer for the sample; ``maps`` are its first feature maps, as pictures."""

    name: str
    kind: str
    shape: tuple[int, ...]
    values: TensorValues
    maps: tuple[SamplePart, ...] = ()


@dataclass(frozen=True)
class SaliencyMap:
    """A map of the parts of a sample that the largest output comes from, the brightest most."""

    method: str
    part: SamplePart


@dataclass(frozen=True)
class CheckpointInspection(Record, label="inspection of a checkpoint", rules=TOOL_RULES):
    """The weights of a checkpoint, and one sample of the training data passed through them.

    ``top_output`` is the number of the sample's largest output, None if the model has no such.
    """

    sample: int
    target: str = ""
    data: tuple[SamplePart, ...] = ()
    top_output: int | None = None
    loss: float | None = None
    """The loss of the batch that gave the gradients."""
    weights: tuple[WeightRow, ...] = ()
    activations: tuple[ActivationRow, ...] = ()
    saliency: tuple[SaliencyMap, ...] = ()
    warnings: tuple[str, ...] = ()
    output: str = field(default="", metadata={READ: str})
    """The end of what the user's code printed."""
