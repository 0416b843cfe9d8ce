"""Serve a folder of event files by TensorBoard until standard input is closed.

The first line of standard input is the request: ``{"folder": …, "token": …}``. It is not on the
command line, because all users of a computer can read that. The answer is one line of JSON on
standard output: ``{"url": …}`` or ``{"error": …}``, "" if TensorBoard is not installed.
"""

from __future__ import annotations

import json
import os
import sys

from backend.base.log import suppress


def serve(folder: str, token: str) -> dict[str, str]:
    """Start the server on a free port of this computer only; all its paths begin with the token."""
    try:
        from tensorboard import program
    except ImportError:  # its answer says so
        return {"error": ""}
    board = program.TensorBoard()
    options = {
        "logdir": folder,
        "host": "127.0.0.1",
        "port": "0",
        "path_prefix": f"/{token}",
        # The fast reader is another process, with a port that has no token.
        "load_fast": "false",
    }
    try:
        board.configure(
            argv=["tensorboard", *(f"--{key}={value}" for key, value in options.items())]
        )
        return {"url": board.launch()}
    except (program.TensorBoardServerException, OSError, SystemExit) as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    request = json.loads(sys.stdin.readline())
    sys.stdout.write(json.dumps(serve(request["folder"], request["token"])) + "\n")
    sys.stdout.flush()
    with suppress(OSError):
        sys.stdin.read()
    os._exit(0)
