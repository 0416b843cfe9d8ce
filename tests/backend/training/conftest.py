"""The compiler of torch stays unloaded in the tests' own process, as in a rank."""

from __future__ import annotations

from backend.training import lazy_dynamo

# Else the first optimizer of the tests takes seconds to load it.
lazy_dynamo.postpone()
