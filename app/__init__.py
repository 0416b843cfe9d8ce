"""The application: its objects, their wiring, and the work behind the window."""

import widgets  # noqa: F401 - before the first module of this package imports PySide6
