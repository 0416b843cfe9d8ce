"""The arguments of the command line, without any actions.

Every subcommand takes ``--data-root``, ``--catalogue`` and ``--json``, before it or after it. So
the top parser and each leaf have them, and only given values are stored (argparse would let the
leaf's default replace an option given before it).
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from backend import VERSION
from backend.cli.common_options import SubcommandGroup
from backend.cli.compare import add_arguments as add_compare
from backend.cli.notice import add_words as add_notice
from backend.cli.study import add_words as add_study
from backend.cli.sweep import add_arguments as add_sweep
from backend.cli.template import add_words as add_template
from backend.records.base.program_name import COMMAND
from backend.records.base.remote_root import SCHEME, RemoteRoot
from backend.records.jobs.checkpoint import EXPORT_FORMATS
from backend.records.queue.start_time import FORMS


def make_parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    group = common.add_argument_group("for every command")
    group.add_argument(
        "--data-root",
        type=_data_root,
        metavar="DIR",
        help="folder that every node sees, or ssh://[USER@]HOST[:PORT]/PATH to reach it by SFTP",
    )
    group.add_argument(
        "--accept-key",
        action="append",
        metavar="FINGERPRINT",
        help="SHA256:… of a host key to accept; may be repeated",
    )
    group.add_argument(
        "--catalogue", type=Path, metavar="FILE", help="its index, on this computer's disk"
    )
    group.add_argument(
        "--json", action="store_true", help="print one JSON document, and no progress bars"
    )
    group.add_argument(
        "--verbose", action="store_true", help="log to the standard error what the command does"
    )
    parser = argparse.ArgumentParser(
        prog=COMMAND,
        description="Train on a small GPU cluster. Without a command the window opens.",
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"Ringmaster {VERSION}")
    words = SubcommandGroup(parser, common, "command", required=False)
    _demo(words)
    words.leaf("doctor", "show what is installed, what is missing, and how to fix it")
    words.leaf("rescan", "rebuild the catalogue from the files of the data root")
    words.branch("mirror", "the local copy of a data root over SSH").leaf(
        "clear", "remove local copies that can be fetched again"
    )
    for kind, does in (
        ("dataset", "import, list, show, preview, scan and remove datasets"),
        ("model", "import, list, show, check and remove models, and store weights with them"),
        ("loader", "import, list, show and remove loaders"),
    ):
        _library(words.branch(kind, does), kind)
    leaf = words.branch("project", "import model, loader and data at once").leaf(
        "import", "import a model, a loader and a dataset from one folder or zip"
    )
    leaf.add_argument("path", type=Path, metavar="PATH")
    leaf.add_argument("--name", required=True, help="name of all three")
    _node(words.branch("node", "add, set up, check and remove nodes"))
    _job(words.branch("job", "create, start, queue, watch and stop jobs"))
    _queue(words.branch("queue", "the waiting jobs, and why each waits"))
    add_study(words.branch("study", "published tables: train their jobs, and compare"))
    add_template(words.branch("template", "saved settings for new jobs"))
    add_notice(words.branch("notice", "notifications of ended jobs"))
    return parser


def _demo(words: SubcommandGroup) -> None:
    demo = words.leaf("demo", "import the built-in example and train it on this computer")
    demo.add_argument("--workers", type=_count, default=2, metavar="N", help="processes, default 2")
    demo.add_argument("--headless", action="store_true", help="train in the terminal, no window")


def _library(words: SubcommandGroup, kind: str) -> None:
    leaf = words.leaf("import", f"import a folder or zip as a {kind}, or as its next version")
    leaf.add_argument("path", type=Path, metavar="PATH")
    leaf.add_argument("--name", required=True)
    words.leaf("list", f"every version of every {kind}")
    _reference(words.leaf("show", f"one {kind}"), kind)
    leaf = words.leaf("changes", f"differences between two versions of a {kind}")
    _reference(leaf, kind)
    leaf.add_argument("--since", default="", metavar="NAME@N", help="default: the version before")
    _reference(words.leaf("remove", f"move one {kind} to the trash of the data root"), kind)
    leaf = words.leaf("remove-added", "move files that were added after the import to the trash")
    _reference(leaf, kind)
    if kind == "dataset":
        leaf = words.leaf("preview", "some samples of a dataset, read by a loader")
        _reference(leaf, kind)
        leaf.add_argument("--loader", required=True, metavar="NAME", help="NAME or NAME@VERSION")
        leaf.add_argument("--split", choices=("training", "validation"), default="training")
        leaf = words.leaf("scan", "read all samples: broken ones, duplicates, leaks, shifts")
        _reference(leaf, kind)
        leaf.add_argument("--loader", required=True, metavar="NAME", help="NAME or NAME@VERSION")
    if kind == "model":
        leaf = words.leaf("check", "load a model, and train it on one batch of a dataset")
        _reference(leaf, kind)
        leaf.add_argument("--dataset", default="", metavar="NAME")
        leaf.add_argument("--loader", default="", metavar="NAME")
        leaf = words.leaf("layers", "every layer: shape, parameters, multiply-adds, memory")
        _reference(leaf, kind)
        leaf.add_argument("--dataset", required=True, metavar="NAME")
        leaf.add_argument("--loader", required=True, metavar="NAME")
        leaf.add_argument(
            "--batch-size", type=_count, default=1, metavar="B", help="for shapes and memory"
        )
        leaf = words.leaf("weights", "store weights with a model, from which its new jobs start")
        _reference(leaf, kind)
        leaf.add_argument("path", type=Path, metavar="FILE", help=".pt or .safetensors")


def _reference(parser: argparse.ArgumentParser, kind: str) -> None:
    parser.add_argument("reference", metavar="NAME", help=f"name of the {kind}, or NAME@VERSION")


def _node(words: SubcommandGroup) -> None:
    leaf = words.leaf("add", "inspect a machine over SSH and add it as a node")
    leaf.add_argument("host", metavar="HOST", help="name, IP address, or Host of ~/.ssh/config")
    leaf.add_argument("--name", default="", metavar="N", help="default: HOST")
    leaf.add_argument("--port", type=_port, default=0, metavar="P")
    leaf.add_argument("--user", default="", metavar="U")
    leaf.add_argument("--identity", default="", metavar="FILE", help="private key to log in with")
    leaf.add_argument(
        "--jump", default="", metavar="[USER@]HOST[:PORT]", help="connect through this host"
    )
    where = leaf.add_mutually_exclusive_group()
    where.add_argument(
        "--node-data-root", default="", metavar="PATH", help="default: the same path as here"
    )
    where.add_argument(
        "--no-share",
        action="store_true",
        help="the node does not see the data root: files are copied over SSH",
    )
    leaf.add_argument(
        "--keep-passphrase",
        action="store_true",
        help="store the passphrase of the key in the system keyring",
    )
    leaf = words.leaf("forget-passphrase", "remove the stored passphrase of a node's key")
    leaf.add_argument("name", metavar="NAME")
    leaf = words.leaf("provision", "set nodes up: Python, Open MPI, PyTorch, agent, a trial")
    leaf.add_argument("names", nargs="*", metavar="NAME", help="default: all nodes")
    leaf.add_argument("--cpu-only", action="store_true", help="leave the GPUs unused")
    leaf.add_argument("--system-mpi", action="store_true", help="use the Open MPI of the nodes")
    leaf.add_argument(
        "--shared", action="store_true", help="one environment on the data root for similar nodes"
    )
    leaf.add_argument(
        "--own-key",
        default="",
        metavar="PATH",
        help="private key on the nodes that connects them already; default: a new key",
    )
    leaf.add_argument(
        "--limit-key",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="restrict the new key to training runs, which is the default, or do not",
    )
    leaf.add_argument(
        "--without-horovod", action="store_true", help="train by DDP; nothing is built here"
    )
    leaf = words.leaf("unprovision", "remove everything of Ringmaster from nodes")
    leaf.add_argument("names", nargs="+", metavar="NAME")
    leaf = words.leaf("remove", "move the records of a node to the trash of the data root")
    leaf.add_argument("name", metavar="NAME")
    leaf = words.leaf("forget", "remove the accepted host key of a machine")
    leaf.add_argument("host", metavar="HOST")
    leaf.add_argument("--port", type=_port, default=22, metavar="P")
    words.leaf("list", "the nodes and their equipment")
    leaf = words.leaf("orphans", "processes that survived their runs on the nodes")
    leaf.add_argument("name", nargs="?", default="", metavar="NAME", help="default: all nodes")
    leaf.add_argument("--end", action="store_true", help="end them")
    leaf = words.leaf("check", "check whether a node can train, and how to fix it")
    leaf.add_argument("name", nargs="?", default="", metavar="NAME", help="default: all nodes")


def _job(words: SubcommandGroup) -> None:
    leaf = words.leaf("create", "create a job from a job file or a template")
    whence = leaf.add_mutually_exclusive_group(required=True)
    whence.add_argument("file", nargs="?", type=Path, default=None, metavar="FILE.toml")
    whence.add_argument("--template", default="", metavar="NAME", help="instead of a file")
    leaf.add_argument("--name", default="", metavar="N", help="another name for the job")
    leaf = words.leaf("simulate", "train a job file here in one process, with simulated staleness")
    leaf.add_argument("file", type=Path, metavar="FILE.toml")
    leaf.add_argument(
        "--staleness", type=int, required=True, metavar="N", help="updates between pull and push"
    )
    leaf.add_argument("--random", action="store_true", help="by chance, N on average")
    for name, does in (
        ("start", "start a job from its first step"),
        ("stop", "stop a job after a checkpoint"),
        ("resume", "resume from the newest checkpoint"),
    ):
        leaf = words.leaf(name, does)
        _job_id(leaf)
        leaf.add_argument("--wait", action="store_true", help="return when the run has ended")
        if name == "start":
            leaf.add_argument(
                "--start-over",
                action="store_true",
                help="start a job that ran before from its first step; its runs are kept in runs/",
            )
        if name == "stop":
            leaf.add_argument(
                "--kill",
                action="store_true",
                help="end a run that did not stop when asked, without a checkpoint",
            )
        else:
            leaf.add_argument(
                "--on",
                action="append",
                default=[],
                metavar="NODE=N",
                help="run on this node, with N processes or these GPUs; may be repeated",
            )
        if name == "resume":
            leaf.add_argument("--checkpoint", default="", metavar="C", help="an older checkpoint")
            leaf.add_argument(
                "--batch-size",
                type=_count,
                default=0,
                metavar="N",
                help="change the batch size",
            )
            leaf.add_argument(
                "--learning-rate",
                type=_rate,
                default=0.0,
                metavar="X",
                help="change the learning rate",
            )
    for name, does in (
        ("wait", "return when the run has ended"),
        ("show", "one job"),
        ("runs", "the runs of a job, and their results"),
        ("history", "every step's metrics"),
        ("checkpoints", "the checkpoints of a job"),
        ("tensorboard", "serve the event files of a job until Ctrl+C"),
        ("acts", "the users who started, stopped and changed a job"),
        ("remove", "move a job to the trash of the data root"),
        ("restore", "move a job back from the trash"),
    ):
        leaf = words.leaf(name, does)
        _job_id(leaf)
        if name == "history":
            _run_number(leaf)
        if name == "tensorboard":
            leaf.add_argument(
                "--weights",
                action="store_true",
                help="also show the model's graph and the weights of each checkpoint",
            )
    words.leaf("list", "every job")
    add_compare(words.leaf("compare", "results of jobs, and the settings that differ"))
    add_sweep(words.leaf("sweep", "queue one job for each combination of several values"))
    leaf = words.leaf("queue", "queue a job to start automatically, or change its entry")
    _job_id(leaf)
    leaf.add_argument(
        "--priority", type=int, default=None, metavar="N", help="-100 to 100, default 0"
    )
    leaf.add_argument("--not-before", default="", metavar="TIME", help=f"{FORMS}, or now")
    leaf.add_argument(
        "--start-over", action="store_true", help="begin at step 1, even if it ran before"
    )
    _job_id(words.leaf("unqueue", "remove a job from the queue"))
    leaf = words.leaf("reorder", "move a waiting job; it gets the priority of its neighbour")
    _job_id(leaf)
    where = leaf.add_mutually_exclusive_group(required=True)
    where.add_argument("--before", default="", metavar="ID")
    where.add_argument("--after", default="", metavar="ID")
    where.add_argument("--first", action="store_true", help="before all others")
    leaf = words.leaf("preflight", "find what prevents a job from starting, and how to fix it")
    _job_id(leaf)
    leaf.add_argument(
        "--canary", action="store_true", help="then train one batch on its nodes as a test"
    )
    leaf.add_argument("--fix", action="store_true", help="fix what can be fixed, and check again")
    leaf = words.leaf("log", "the log of a rank or of mpirun")
    _job_id(leaf)
    leaf.add_argument("--rank", type=_rank, default=None, metavar="R", help="default: mpirun's log")
    _run_number(leaf)
    leaf = words.leaf("keep", "never remove a checkpoint, whatever the job's settings say")
    _job_id(leaf)
    leaf.add_argument("--checkpoint", required=True, metavar="C", help="a name, latest or best")
    leaf.add_argument("--undo", action="store_true", help="follow the job's settings again")
    leaf = words.leaf("layers", "the weights of a checkpoint, and one sample passed through them")
    _job_id(leaf)
    leaf.add_argument("--checkpoint", required=True, metavar="C", help="a name, latest or best")
    leaf.add_argument("--against", default="", metavar="C", help="compare with this checkpoint")
    leaf.add_argument(
        "--sample", type=_sample, default=0, metavar="N", help="default: the first, 0"
    )
    leaf = words.leaf("export", "export a checkpoint")
    _job_id(leaf)
    leaf.add_argument("--checkpoint", required=True, metavar="C", help="a name, latest or best")
    leaf.add_argument("--format", required=True, choices=EXPORT_FORMATS)
    leaf.add_argument("--output", required=True, type=Path, metavar="PATH")
    leaf = words.leaf("predict", "try a checkpoint on a dataset or on files")
    _job_id(leaf)
    leaf.add_argument("--checkpoint", required=True, metavar="C", help="a name, latest or best")
    what = leaf.add_mutually_exclusive_group()
    what.add_argument(
        "--dataset", default="", metavar="NAME", help="NAME or NAME@VERSION; default: the job's"
    )
    what.add_argument(
        "--file",
        action="extend",
        nargs="+",
        default=[],
        metavar="F",
        help="files, or folders of them, for a loader with a method read",
    )
    leaf.add_argument("--loader", default="", metavar="NAME", help="default: the job's")
    leaf.add_argument("--split", choices=("validation", "training"), default="validation")
    leaf.add_argument("--samples", default="", metavar="N", help="only these: 3, 10-20")
    leaf.add_argument("--output", required=True, type=Path, metavar="O.csv")
    leaf = words.leaf("bundle", "write a job to one file, for another desktop to replay")
    _job_id(leaf)
    leaf.add_argument(
        "file", nargs="?", type=Path, default=None, metavar="FILE", help="default: NAME.ringmaster"
    )
    leaf.add_argument("--with-data", action="store_true", help="include the dataset's files")
    leaf.add_argument("--checkpoint", default="", metavar="C", help="a name, latest, best or none")
    leaf = words.leaf("unbundle", "import such a file as a job, after verifying every byte")
    leaf.add_argument("file", type=Path, metavar="FILE")
    leaf = words.leaf("replay", "create a job that repeats another: same files, same seed")
    _job_id(leaf)
    leaf.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="NODE=N",
        help="run on this node, with N processes or these GPUs; may be repeated",
    )
    leaf.add_argument(
        "--wait", action="store_true", help="start it, and compare it with the original"
    )
    _job_id(words.leaf("replayed", "compare the curves of a replay and its original"))
    leaf = words.leaf("clone", "print a job file that repeats a job, to edit and create")
    _job_id(leaf)
    leaf.add_argument("--output", type=Path, default=None, metavar="FILE", help="write to FILE")
    leaf = words.leaf("annotate", "change the name, the notes or the tags of a job")
    _job_id(leaf)
    leaf.add_argument("--name", default=None)
    leaf.add_argument("--notes", default=None)
    leaf.add_argument("--tag", action="append", default=None, metavar="TAG", help="may be repeated")
    leaf = words.leaf("tag", "add tags to jobs, or remove them; other tags stay")
    leaf.add_argument("ids", nargs="+", metavar="ID", help="a job's id, its beginning, or its name")
    leaf.add_argument("--add", action="append", default=[], metavar="TAG", help="may be repeated")
    leaf.add_argument("--remove", action="append", default=[], metavar="TAG")


def _queue(words: SubcommandGroup) -> None:
    words.leaf("list", "the waiting jobs, the next one first")
    words.leaf("pause", "start no more jobs from the queue; running jobs continue")
    words.leaf("resume", "start jobs from the queue again")


def _run_number(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--run", type=_count, default=0, metavar="N", help="a run that start put away in runs/"
    )


def _job_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="a job's id, the beginning of it, or its name")


def _data_root(text: str) -> Path | RemoteRoot:
    if not text.startswith(SCHEME):
        return Path(text)
    try:
        return RemoteRoot.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"“{text}” should be a whole number, 1 or more")
    return int(text)


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"“{text}” should be a number above 0")
    return rate


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"“{text}” should be a port, 1 to 65535")
    return int(text)


def _sample(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"“{text}” should be a sample's number, 0 or more")
    return int(text)


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"“{text}” should be a rank's number, 0 or more")
    return int(text)
