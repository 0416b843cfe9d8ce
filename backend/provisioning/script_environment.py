"""The environment of a script: on a node or on this computer, over the one that is there.

It holds what the script lists and the environment below lacks; all else is imported from there, so
torch is the node's own. It lies beside the one below, has its name and a digest of what the script
lists, and is made aside and renamed (`NodeEnvironments`). Programs in its ``bin`` find their Python
by their own place.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from backend.base.errors import BackendError
from backend.provisioning.node_environment import INSTALL, RELOCATABLE, NodeEnvironments, new_name
from backend.provisioning.script_wheels import LISTING, Base, ScriptWheels
from backend.provisioning.step_reporter import Steps
from backend.provisioning.wheelhouse import Ask, Tell, Wheelhouse, run_pip
from backend.records.base.validation import sanitize
from backend.ssh.interface import Shell

_LAYER = """import pathlib, sys, sysconfig
lines = ["import site", *(f"site.addsitedir({place!r})" for place in sys.argv[1:])]
path = pathlib.Path(sysconfig.get_path("purelib"), "_node.pth")
path.write_text("; ".join(lines) + "\\n", "utf-8")"""

Gather = Callable[[Base], Wheelhouse]


def make_on_node(
    shell: Shell, steps: Steps, made: NodeEnvironments, python: str, name: str, gather: Gather
) -> str:
    """Make it on a node, unless it is there; ``python`` is the one below.

    Raises:
        BackendError: The node's disk is full, or see `gather`; nothing half remains.
    """
    if made.find(name) is not None:
        return f"{name} exists."
    asked = [python, "-I", "-c", LISTING]
    base = Base.parse(steps.must(shell, asked, f"{python} does not start"))
    house = gather(base)
    folder = made.begin(python, house)
    try:
        layer = [str(folder / "bin/python"), "-I", "-c", _LAYER, *base.places]
        steps.must(shell, layer, f"{folder} cannot be written")
        made.push(python, house, [house.uv, *house.wheels])
        made.install(folder, house, house.wheels)
        wheels = [wheel.name for wheel in (house.uv, *house.wheels)]
        made.finish(folder, name, {"python": base.python, "wheels": wheels})
    except BaseException:
        made.drop(folder)
        raise
    return f"{len(house.wheels)} packages."


def make_here(
    python: str,
    folder: Path,
    wheels: ScriptWheels,
    gather: Gather,
    on_line: Tell,
    cancelled: Ask,
) -> None:
    """Make it on this computer as `make_on_node` does, in ``folder``."""
    if os.access(folder / "bin/python", os.X_OK):
        return

    def run(*argv: str) -> str:
        code, said = run_pip(argv, on_line, cancelled)
        if code:
            last = sanitize((said.strip().splitlines() or ["no output"])[-1], 200)
            raise BackendError(f"{folder} cannot be made: {last.rstrip('.')}.")
        return said

    base = Base.parse(run(python, "-I", "-c", LISTING))
    house = gather(base)
    building = folder.with_name(new_name())
    own = str(building / "bin/python")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        run(python, "-I", "-m", "venv", "--without-pip", str(building))
        with (building / "pyvenv.cfg").open("ab") as settings:
            settings.write(RELOCATABLE)
        run(own, "-I", "-c", _LAYER, *base.places)
        if house.wheels:
            paths = [str(house.folder / one.name) for one in house.wheels]
            run(wheels.uv(on_line, cancelled), *INSTALL, "--python", own, *paths)
        # Its Python was removed or upgraded.
        shutil.rmtree(folder, ignore_errors=True)
        building.rename(folder)
    except OSError as error:
        raise BackendError(f"{folder} cannot be written: {error.strerror}.") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
