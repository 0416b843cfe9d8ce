"""A program that a script starts is missing: neither a path nor a Python module."""

from __future__ import annotations

import pytest

from tests.backend.node.diagnosis.test_messages import of_rank

_HEAD = (
    'Traceback (most recent call last):\n  File "/jobs/7/script/train.py", line 12, in <module>\n'
)


def started(program: str, error: str) -> str:
    """What a script says whose `subprocess.run` failed."""
    code = (
        (503, "run", "with Popen(*popenargs, **kwargs) as process:"),
        (971, "__init__", "self._execute_child(args, executable, preexec_fn, close_fds,"),
        (1863, "_execute_child", "raise child_exception_type(errno_num, err_msg, err_filename)"),
    )
    frames = "".join(
        f'  File "/usr/lib/python3.10/subprocess.py", line {line}, in {name}\n    {text}\n'
        for line, name, text in code
    )
    return f'{_HEAD}    subprocess.run(["{program}", "-i", path], check=True)\n{frames}{error}\n'


def raised(package: str, error: str) -> str:
    """What a library says that did not find its program."""
    frame = f'  File "/env/lib/python3.10/site-packages/{package}", line 30, in call\n    raise\n'
    return f"{_HEAD}    main()\n{frame}{error}\n"


_NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: "


@pytest.mark.parametrize(
    ("program", "log"),
    [
        ("ffmpeg", started("ffmpeg", f"{_NO_FILE}'ffmpeg'")),
        ("ffprobe", started("ffprobe", f"{_NO_FILE}b'ffprobe'")),
        ("sox", f"{_HEAD}    os.execvp('sox', argv)\n{_NO_FILE}'sox'\n"),
        (
            "git",
            raised(
                "git/cmd.py",
                "git.exc.GitCommandNotFound: Cmd('git') not found due to: "
                f"FileNotFoundError('{_NO_FILE}'git'')\n  cmdline: git version",
            ),
        ),
        (
            "tesseract",
            raised(
                "pytesseract/pytesseract.py",
                "pytesseract.pytesseract.TesseractNotFoundError: tesseract is not installed or "
                "it's not in your PATH. See README file for more information.",
            ),
        ),
        (
            "dot",
            raised(
                "graphviz/backend/execute.py",
                "graphviz.backend.execute.ExecutableNotFound: failed to execute "
                "PosixPath('dot'), make sure the Graphviz executables are on your systems' PATH",
            ),
        ),
        (
            "poppler",
            raised(
                "pdf2image/pdf2image.py",
                "pdf2image.exceptions.PDFInfoNotInstalledError: Unable to get page count. Is "
                "poppler installed and in PATH?",
            ),
        ),
        (
            "ffmpeg",
            raised(
                "imageio_ffmpeg/_utils.py",
                "RuntimeError: No ffmpeg exe could be found. Install ffmpeg on your system, or "
                "set the IMAGEIO_FFMPEG_EXE environment variable.",
            ),
        ),
        (
            "ffmpeg",
            raised(
                "pexpect/pty_spawn.py",
                "pexpect.exceptions.ExceptionPexpect: The command was not found or was not "
                "executable: ffmpeg.",
            ),
        ),
        ("ffmpeg", raised("sh.py", "sh.CommandNotFound: ffmpeg")),
        ("sox", "/bin/sh: 1: sox: not found\n"),
        ("sox", "/bin/sh: 1: exec: sox: not found\n"),
        ("sox", "zsh: command not found: sox\n"),
        ("sox", "timeout: failed to run command ‘sox’: No such file or directory\n"),
        ("sox", "xargs: sox: No such file or directory\n"),
    ],
)
def test_a_program_that_is_missing_is_named_as_one(program: str, log: str) -> None:
    explanation = of_rank(log)
    assert explanation.cause == "program_missing"
    assert explanation.message == f"The command {program} is missing on the node."
    assert "Install it on the node" in explanation.remedy


@pytest.mark.parametrize(
    ("path", "log"),
    [
        ("/data/clips", started("ffmpeg", f"{_NO_FILE}'/data/clips'")),
        ("ffmpeg", f"{_HEAD}    open('ffmpeg')\n{_NO_FILE}'ffmpeg'\n"),
        ("data.csv", f"{_HEAD}    open('data.csv')\n{_NO_FILE}'data.csv'\n"),
    ],
)
def test_a_file_that_is_missing_stays_one(path: str, log: str) -> None:
    explanation = of_rank(log)
    assert explanation.cause == "file_missing"
    assert explanation.message.startswith(f"{path} does not exist")
