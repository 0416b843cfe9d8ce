"""Messages of Open MPI, batch systems and PyTorch about runs that fail to start together."""

from __future__ import annotations

from backend.node.diagnosis.rule import ANYWHERE, LINES, Rule, Weight, Where, message, prose

_ISSUES = "https://github.com/"
_HELP = "https://github.com/open-mpi/ompi/tree/v4.1.x/orte"
_LAUNCH = (Where.MPIRUN,)

RULES = (
    Rule(
        "memory_locked",
        prose(
            r"trying to allocate some locked memory|memlock limit"
            r"|ibv_(?:reg_mr|create_\w+)\w*[^\n]*Cannot allocate memory"
        ),
        "The node's limit of locked memory is too low for the network card.",
        "Have the node's limit of locked memory raised (ulimit -l unlimited), also for SSH.",
        "https://www.open-mpi.org/faq/?category=openfabrics#ib-locked-pages",
        where=ANYWHERE,
    ),
    Rule(
        "mpi_hosts",
        prose(
            r"(?:unable to open the|contains at least one node not present in the|parsing the)"
            r"\s+(?:hostfile|allocation)|requested hosts? (?:are|were|is) not (?:included )?in the"
            r"|no allocated resources\s+for the application"
            r"|There are no nodes allocated to this job"
        ),
        "mpirun has no nodes for the processes: its list of hosts does not match.",
        "Start the job again. Remove OMPI_MCA and PRTE_MCA variables from its environment, and "
        "start it outside any other batch system.",
        _HELP + "/mca/ras/base/help-ras-base.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_workdir",
        prose(
            r"could not change to the\s+(?:specified\s+)?working directory"
            r"|unable to change to the working directory"
        ),
        "The run's folder does not exist on a node.",
        "Check that the node sees the data root under the same path.",
        _HELP + "/mca/odls/base/help-orte-odls-base.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_option",
        prose(
            r"(?:mpirun|prterun): (?:Error: )?(?:unrecognized|unknown) (?:option|argument)"
            r"|option that was not recognized"
        ),
        "mpirun does not know an option: it is another version, or part of another MPI.",
        "Set the node up again.",
        _HELP + "/tools/orterun/help-orterun.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_bind_refused",
        prose(r"tried to bind a process,? but failed|tried to bind a new process, but"),
        "mpirun could not bind a process to its cores: the node does not allow it.",
        "Check which cores the node, its container or its batch system gives to the user.",
        _HELP + "/mca/rtc/hwloc/help-orte-rtc-hwloc.txt",
        where=LINES,
    ),
    Rule(
        "rendezvous",
        message(
            r"client socket has (?:failed to connect to any network address of|timed out after)"
            r"[^\n(]*(?:\((?P<host>[\w.:-]+), \d+\))?"
            r"|Connect timeout \[[^\]]*\]|Gloo connectFullMesh failed"
            r"|gloo/transport/\S+\] connect\s+\[(?P<host2>[\w.:-]+)\]:\d+: "
            r"(?:Connection refused|Connection timed out|No route to host)"
            r"|TCPStore[^\n]*(?:timed out|Timeout|Connection refused)"
            r"|Timed out (?:waiting for [^\n]*(?:to start|to connect|registering)"
            r"|after \d+ seconds waiting for clients)"
            r"|Rendezvous(?:Connection|Timeout|Closed)Error"
            r"|^RuntimeError: (?:Socket Timeout|connect\(\) timed out|[Ww]ait timeout\.?$"
            r"|Connection timed out|[Tt]imed out$)|http_store\.cc[^\n]*Wait timeout"
        ),
        "The ranks could not connect: {host} did not answer.",
        "Check that firewalls allow all ports between the job's nodes, and that the missing "
        "rank started.",
        "https://docs.pytorch.org/docs/stable/distributed.html",
        weight=Weight.VAGUE,
        otherwise="The ranks could not connect over the network.",
    ),
    Rule(
        "mpi_cards",
        prose(r"selected pml (?P<one>\w+), but peer [^\n]*selected pml (?P<two>\w+)"),
        "The nodes chose different networks for MPI: {one} and {two}.",
        "Choose nodes with the same network cards and the same Open MPI.",
        _ISSUES + "open-mpi/ompi/tree/v4.1.x/ompi/mca/pml/base",
        where=LINES,
    ),
    Rule(
        "time_limit",
        message(
            r"CANCELLED AT [^\n]*DUE TO TIME LIMIT|time limit for job execution has been"
            r"|job killed: walltime \d+ exceeded limit|TERM_RUNLIMIT"
        ),
        "The batch system ended the run: its time limit was reached.",
        "Request more time from the batch system, then resume.",
        "https://slurm.schedmd.com/sbatch.html",
        where=LINES,
    ),
    Rule(
        "cancelled",
        message(r"(?:JOB|STEP) \S+ ON \S+ CANCELLED AT [^\n]*"),
        "The batch system ended the run: it was cancelled.",
        "Find the reason in the batch system's record of this job (Slurm: “sacct”), then resume.",
        "https://slurm.schedmd.com/scancel.html",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "cpu_limit",
        message(r"exited on\s+signal 24 |CPU time limit exceeded"),
        "A process reached the node's limit of CPU time.",
        "Have the node's limit of CPU time raised (ulimit -t), then resume.",
        "https://man7.org/linux/man-pages/man2/setrlimit.2.html",
        where=LINES,
    ),
    Rule(
        "ended",
        message(
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on\s+"
            r"signal (?:1|2|15) |^mpirun: killing job"
        ),
        "Rank {rank} on {node} was ended by another process.",
        "Resume. If no user ended it, find which program ends processes on the node.",
        _HELP + "/tools/orterun/help-orterun.txt",
        where=LINES,
        weight=Weight.VAGUE,
        otherwise="The run was ended by another process.",
    ),
    Rule(
        "connection_gone",
        message(
            r"^(?:\w+\.)*(?:ConnectionReset|ConnectionRefused|ConnectionAborted|BrokenPipe)Error\b"
            r"|^(?:TimeoutError|OSError): \[Errno (?:103|110|112)\] [^\n:']*$"
            r"|^EOFError$|^RuntimeError: [^\n]*Broken pipe"
        ),
        "Another process closed its connection to the program.",
        "Open the logs of the other ranks and read the lines before this one.",
        "https://docs.python.org/3/library/exceptions.html#ConnectionError",
        where=(Where.RAISED,),
        weight=Weight.ECHO,
    ),
    Rule(
        "interrupted",
        message(r"^KeyboardInterrupt\b|SignalException: Process \d+ got signal: (?:1|2|15)\b"),
        "The rank was interrupted (SIGINT).",
        "Resume. If no user ended it, find which program ends processes on the node.",
        "https://docs.python.org/3/library/exceptions.html#KeyboardInterrupt",
        where=(Where.RAISED,),
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_session",
        prose(
            r"PMIx server's listener thread failed to start|orte_session_dir failed"
            r"|session_dir: [^\n]*(?:failed|denied)|shmem_base_select failed"
            r"|A system call failed during shared memory initialization"
        ),
        "Open MPI could not use its folder for the run.",
        "Set TMPDIR on the node to a folder with a short name and enough space, on the node's "
        "own disk.",
        _HELP + "/runtime/help-orte-runtime.txt",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_abort",
        prose(
            r"MPI_ABORT was invoked on rank (?P<rank>\d+)|invoking MPI_ABORT causes Open MPI to"
            r"|application called MPI_Abort\([^)]*\) - process (?P<rank2>\d+)"
        ),
        "Rank {rank} aborted the whole run (MPI_Abort).",
        "Open the log of that rank: the lines before the abort give the reason.",
        _ISSUES + "open-mpi/ompi/tree/v4.1.x/ompi/mpi",
        where=LINES,
        weight=Weight.ECHO,
        otherwise="A rank aborted the whole run (MPI_Abort).",
    ),
    Rule(
        "mpi_left",
        prose(
            r"process rank (?P<rank>\d+) with PID \d+ on\s+node (?P<node>\S+) exiting\s+improperly"
            r"|exiting without calling \"?finalize"
        ),
        "Rank {rank} on {node} exited early.",
        "Open the log of that rank: its last lines give the reason.",
        _HELP + "/tools/orterun/help-orterun.txt",
        where=LINES,
        weight=Weight.ECHO,
        otherwise="A rank exited early.",
    ),
)
