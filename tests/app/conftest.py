"""What presses keys says as well as a test what it did not see."""

import pytest

pytest.register_assert_rewrite(
    *(f"tests.app.keys_{place}" for place in ("everywhere", "of_jobs", "of_new_job", "of_plots"))
)
