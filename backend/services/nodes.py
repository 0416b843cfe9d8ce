"""The nodes. This computer is one from the first start, with no SSH.

What a node is, is read anew each time: nobody keeps a list that could be wrong.
"""

from __future__ import annotations

from backend.errors import BackendError
from backend.node import check, probe
from backend.records.job import THIS_COMPUTER
from backend.records.layout import DataRoot
from backend.records.node import Finding, NodeReading, NodeState
from backend.records.values import printable
