"""Every screen and state of the window; to import this fills the gallery."""

from tests.pictures.screens import (  # noqa: F401
    compare,
    dialogs,
    drops,
    frame,
    from_gallery,
    job,
    jobs,
    library,
    new_job,
    nodes,
    studies,
    sweeps,
    templates,
    tries,
)
