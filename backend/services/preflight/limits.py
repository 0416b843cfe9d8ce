"""Time limits of a preflight check."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from backend.base.errors import BackendError

_MAX_FACTOR = 5.0
VARIABLE = "RINGMASTER_PREFLIGHT_S"
"""The environment variable that sets the limit of the whole check, for slow nodes."""


@dataclass(frozen=True)
class PreflightLimits:
    """Limits in seconds. A check without a result within its limit blocks the start."""

    total_s: float = 25.0
    listening_s: float = 11.0
    """Wait for the listeners of all nodes before the connection tests; longer than SSH's limit."""
    connection_s: float = 4.0
    listen_s: float = 8.0
    inspection_s: float = 12.0
    command_s: float = 11.0
    root_s: float = 4.0
    answer_s: float = 4.0
    agent_s: float = 20.0
    """The limit of the fix that starts an agent."""

    @classmethod
    def scaled_to(cls, total_s: float) -> PreflightLimits:
        """Return the limits of a check that may take ``total_s``, all in proportion."""
        factor = total_s / cls.total_s
        return cls(*(getattr(cls, field.name) * factor for field in fields(cls)))

    def for_node(self, login_s: float, load: float = 0.0, cores: int = 1) -> PreflightLimits:
        """Return the limits of a node, by the time of its login, usually 1 s, and by its load."""
        load_per_core = load / max(cores, 1)
        factor = min(_MAX_FACTOR, max(1.0, load_per_core, login_s))
        return self.scaled_to(self.total_s * factor)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> PreflightLimits:
        """Return the limits that the environment sets.

        Raises:
            BackendError: The value is not a number of seconds.
        """
        text = environment.get(VARIABLE, "").strip()
        try:
            total_s = float(text or cls.total_s)
        except ValueError:  # refused below
            total_s = math.nan
        if not 1 <= total_s <= 3600:
            raise BackendError(
                f"{VARIABLE} is “{text}”; it must be a number of seconds from 1 to 3600.",
                f"Remove the variable for {cls.total_s:g} s.",
            )
        return cls.scaled_to(total_s)
