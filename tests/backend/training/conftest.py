"""Fixture of a single thread for training in the test's own process, as in real ranks.

With two, sums are added in another order, and threads that wait by spinning take the cores of
other tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from backend.training import lazy_dynamo

# As a rank does: else the first optimizer of the tests takes seconds to load the compiler.
lazy_dynamo.postpone()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    thread_count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(thread_count)
