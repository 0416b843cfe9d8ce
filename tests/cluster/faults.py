"""Every fault that the nodes of a job can have, by name."""

from __future__ import annotations

from tests.cluster import (
    faults_of_access,
    faults_of_machine,
    faults_of_set_up,
    faults_to_repair,
)
from tests.cluster.seeding import SEEDED_FAULTS

__all__ = (
    "SEEDED_FAULTS",
    "faults_of_access",
    "faults_of_machine",
    "faults_of_set_up",
    "faults_to_repair",
)
