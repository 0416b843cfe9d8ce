"""The program: what is made, wired and done on behalf of what is seen."""

import widgets  # noqa: F401 - before the first module of this package imports PySide6
