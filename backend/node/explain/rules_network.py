"""Messages of Open MPI, SSH, NCCL and Horovod about ranks that do not find each other."""

from __future__ import annotations

from backend.node.explain.rule import ANYWHERE, LINES, RANK, Rule, Weight, Where, message

_ISSUES = "https://github.com/"
_LAUNCH = (Where.MPIRUN,)
_ROUTE = (
    "Check that a firewall lets the nodes of the job talk to each other on all ports, and that "
    "they share a subnet."
)

RULES = (
    Rule(
        "ssh_key_changed",
        message(
            r"REMOTE HOST IDENTIFICATION HAS CHANGED"
            r"(?:(?:.|\n){0,1500}?host key for (?P<host>\S+) has changed)?"
        ),
        "The SSH host key of {host} is another one than was accepted.",
        "Find out why; when the node was reinstalled, remove it and add it again.",
        _ISSUES + "kftsehk/phy-clusters/issues/29",
        where=_LAUNCH,
        otherwise="The SSH host key of a node is another one than was accepted.",
    ),
    Rule(
        "ssh_key_unknown",
        message(r"Host key verification failed"),
        "The SSH host key of a node was never accepted on the node that starts the run.",
        "Set the nodes up again: that tells every node the keys of the others.",
        _ISSUES + "microsoft/VirtualClient/pull/752",
        where=_LAUNCH,
    ),
    Rule(
        "ssh_denied",
        message(
            r"(?:(?P<host>[\w.@-]+): )?Permission denied \((?:publickey|password|gssapi)[^)]*\)"
        ),
        "{host} does not let the cluster's key in.",
        "Set the node up again: that gives it the cluster's key.",
        _ISSUES + "horovod/horovod/issues/467",
        where=_LAUNCH,
        otherwise="A node does not let the cluster's key in.",
    ),
    Rule(
        "ssh_unreachable",
        message(
            r"ssh: connect to host (?P<host>\S+) port \d+: (?P<why>[^\n]+)"
            r"|(?:ssh|kex)_exchange_identification: (?P<closed>[^\n]+)"
        ),
        "{host} did not answer SSH ({why}).",
        "Check that the node is on, and that its SSH server runs and is not overrun.",
        _ISSUES + "open-mpi/ompi/issues/6379",
        where=_LAUNCH,
        otherwise="The SSH server of a node dropped the connection.",
    ),
    Rule(
        "host_name",
        message(
            r"(?:ssh: )?Could not resolve hostname (?P<host>[^\s:]+)"
            r"|getaddrinfo[^\n]*: Name or service not known"
        ),
        "The name {host} leads to no address.",
        "Add the node by its address, or mend the name on the nodes.",
        "https://man.openbsd.org/ssh",
        where=ANYWHERE,
        otherwise="The name of a node leads to no address.",
    ),
    Rule(
        "mpi_missing",
        message(
            r"(?:orted|prted|prterun): (?:command )?not found"
            r"|(?:orted|prted): No such file or directory"
        ),
        "Open MPI was not found on a node of the job.",
        "Set the node up again.",
        _ISSUES + "horovod/horovod/issues/760",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_slots",
        message(r"not enough slots available in the system to satisfy the (?P<count>\d+)\s+slots"),
        "mpirun has fewer places than the {count} processes that were asked for.",
        "Choose fewer processes, or nodes with more GPUs or cores.",
        _ISSUES + "open-mpi/ompi/issues/3133",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_binding",
        message(r"A request was made to bind to that would (?:require|result in) binding more"),
        "mpirun could not give each process cores of its own: there are more processes than cores.",
        "Choose fewer processes on this node.",
        "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_executable",
        message(
            r"(?:unable to find the specified|could not find an|unable to launch the specified)"
            r"\s+(?:executable|application)"
        ),
        "mpirun did not find the program on a node of the job.",
        "Set the node up again.",
        "https://docs.open-mpi.org/en/v5.0.x/man-openmpi/man1/mpirun.1.html",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_folder",
        message(
            r"A call to mkdir was unable to create the desired directory:"
            r"\s+Directory: (?P<folder>[^\n]+)(?:\s+Error:\s+(?P<why>[^\n]+))?"
        ),
        "Open MPI could not make its folder {folder}.",
        "Make room in this place, or set TMPDIR on the node to a folder that can be written.",
        _ISSUES + "open-mpi/ompi/issues/7528",
        where=LINES,
    ),
    Rule(
        "mpi_tcp",
        message(
            r"btl_tcp_endpoint[^\n]*connect\(\) to (?P<old>\S+) failed"
            r"|failed to TCP connect to a peer MPI process(?:.|\n){0,500}?"
            r"connect\(\) to (?P<address>[\w.:\[\]-]+) failed"
            r"|unable to complete a TCP connection\s+to another process"
        ),
        "The MPI processes do not reach each other over the network: {address} does not answer.",
        _ROUTE,
        _ISSUES + "open-mpi/ompi/issues/4963",
        where=LINES,
        otherwise="The MPI processes of the nodes do not reach each other over the network.",
    ),
    Rule(
        "mpi_no_path",
        message(
            r"At least one pair of MPI processes are unable to reach each other for\s+MPI"
            r"|PML add procs failed"
        ),
        "The MPI processes found no network over which they reach each other.",
        _ROUTE,
        "https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html",
        where=LINES,
    ),
    Rule(
        "nccl_connect",
        message(
            r"WARN (?:[\w/]+ ?: )?(?:Call to connect|Connect to (?P<address>\S+?)(?:<\d+>)?)"
            r" (?:failed|returned \d+\((?!Success))"
            r"|WARN Bootstrap ?: no socket interface found"
            r"|WARN (?:Call to bind|Net : Call to bind) failed"
        ),
        "NCCL could not connect to {address}.",
        _ROUTE + " NCCL_SOCKET_IFNAME in the job's environment names the network card to use.",
        _ISSUES + "NVIDIA/nccl/issues/975",
        otherwise="NCCL could not connect the GPUs of the nodes.",
    ),
    Rule(
        "nccl_infiniband",
        message(
            r"NCCL WARN (?:NET/IB ?: )?(?:Got (?:completion|async event)|Call to ibv_\w+ failed)"
        ),
        "NCCL's InfiniBand connection broke.",
        "Resume; when it happens again, NCCL_IB_DISABLE=1 in the job's environment goes without "
        "InfiniBand.",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
    ),
    Rule(
        "horovod_mismatch",
        message(r"Mismatched [^\n:]{3,60}: (?P<what>[^\n]+)"),
        "The ranks do not agree on a step: {what}",
        "All ranks must build the same model and take the same branch in each step.",
        _ISSUES + "horovod/horovod/issues/398",
    ),
    Rule(
        "horovod_not_started",
        message(r"Horovod has not been initialized"),
        "The code used Horovod before it was started.",
        "The job starts Horovod itself: use it in the model's and the loader's functions, not "
        "when they are imported.",
        _ISSUES + "aws-samples/mask-rcnn-tensorflow/issues/19",
        where=RANK,
    ),
    Rule(
        "horovod_not_built",
        message(r"Extension horovod\.\w+ has not been built"),
        "Horovod was installed without support for PyTorch.",
        "Set the node up again.",
        _ISSUES + "horovod/horovod/issues/3877",
        where=RANK,
    ),
    Rule(
        "horovod_stall",
        message(
            r"(?:tensors were submitted to be reduced, gathered or broadcasted by subset of ranks"
            r"(?:(?:.|\n){0,1500}?\[missing ranks: (?P<ranks>[\d, ]+)\])?)|Stalled ops:"
        ),
        "The other ranks waited for rank {ranks}, which did not take part in a step.",
        "Look at the log of that rank: it hangs, or took another branch in the model.",
        _ISSUES + "horovod/horovod/issues/403",
        weight=Weight.VAGUE,
        otherwise="Some ranks waited for others that did not take part in a step.",
    ),
    Rule(
        "nccl",
        message(
            r"ncclSystemError|ncclInternalError|ncclUnhandledCudaError|ncclInvalidUsage"
            r"|ncclRemoteError|NCCL failure|ncclCommInitRank failed|ncclAllReduce failed"
            r"|NCCL WARN (?P<what>[^\n]+)"
        ),
        "NCCL says: {what}.",
        "NCCL_DEBUG=INFO in the job's environment makes NCCL say more in the log.",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",
        weight=Weight.VAGUE,
        otherwise="NCCL could not do its part of a step.",
    ),
    Rule(
        "peer_gone",
        message(
            r"Horovod has been shut down"
            r"|MPI communication peer process has unexpectedly disconnected"
            r"|(?:Connection closed by peer|Connection reset by peer)"
            r"|NCCL WARN [^\n]*Connection closed by remote peer"
        ),
        "Another rank had gone already; this log only says so.",
        "Look at the log of the rank that ended first.",
        _ISSUES + "horovod/horovod/issues/2975",
        weight=Weight.ECHO,
    ),
)
