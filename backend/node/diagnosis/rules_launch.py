"""Messages of Open MPI, batch systems and PyTorch about runs that do not come together."""

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
        "The network card may lock too little memory on the node.",
        "Have the node's limit of locked memory raised (ulimit -l unlimited), over SSH, too.",
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
        "mpirun has no nodes for the processes: its list of hosts does not fit.",
        "Start the job again; remove OMPI_MCA and PRTE_MCA variables from its environment, and "
        "start it outside of another batch system.",
        _HELP + "/mca/ras/base/help-ras-base.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_workdir",
        prose(
            r"could not change to the\s+(?:specified\s+)?working directory"
            r"|unable to change to the working directory"
        ),
        "The folder of the run is not there on a node.",
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
        "mpirun does not know an option: it is another version, or of another MPI.",
        "Set the node up again.",
        _HELP + "/tools/orterun/help-orterun.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_bind_refused",
        prose(r"tried to bind a process,? but failed|tried to bind a new process, but"),
        "mpirun could not tie a process to its cores: the node does not let it use them.",
        "Check which cores the node, its container or its batch system lets the user have.",
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
        "The ranks did not find each other: {host} did not answer.",
        "Check that a firewall lets the nodes of the job talk to each other on all ports, and "
        "that the rank which is waited for has started at all.",
        "https://docs.pytorch.org/docs/stable/distributed.html",
        weight=Weight.VAGUE,
        otherwise="The ranks did not find each other over the network.",
    ),
    Rule(
        "mpi_cards",
        prose(r"selected pml (?P<one>\w+), but peer [^\n]*selected pml (?P<two>\w+)"),
        "The nodes chose different networks for MPI: one {one}, another one {two}.",
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
        "The batch system on the node ended the run: its time was up.",
        "Ask for more time there, then resume.",
        "https://slurm.schedmd.com/sbatch.html",
        where=LINES,
    ),
    Rule(
        "cancelled",
        message(r"(?:JOB|STEP) \S+ ON \S+ CANCELLED AT [^\n]*"),
        "The batch system on the node ended the run: somebody or something cancelled it.",
        "Look at what it says of this job, then resume.",
        "https://slurm.schedmd.com/scancel.html",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "cpu_limit",
        message(r"exited on\s+signal 24 |CPU time limit exceeded"),
        "A process used up the processor time that the node allows it.",
        "Have the node's limit of processor time raised (ulimit -t), then resume.",
        "https://man7.org/linux/man-pages/man2/setrlimit.2.html",
        where=LINES,
    ),
    Rule(
        "ended",
        message(
            r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on\s+"
            r"signal (?:1|2|15) |^mpirun: killing job"
        ),
        "Rank {rank} on {node} was ended from outside.",
        "Resume; when nobody did it, look at who or what ends processes on the node.",
        _HELP + "/tools/orterun/help-orterun.txt",
        where=LINES,
        weight=Weight.VAGUE,
        otherwise="The run was ended from outside.",
    ),
    Rule(
        "connection_gone",
        message(
            r"^(?:\w+\.)*(?:ConnectionReset|ConnectionRefused|ConnectionAborted|BrokenPipe)Error\b"
            r"|^(?:TimeoutError|OSError): \[Errno (?:103|110|112)\] [^\n:']*$"
            r"|^EOFError$|^RuntimeError: [^\n]*Broken pipe"
        ),
        "Another process that the program talked to was gone.",
        "Look at the logs of the other ranks, and at what was written before this.",
        "https://docs.python.org/3/library/exceptions.html#ConnectionError",
        where=(Where.RAISED,),
        weight=Weight.ECHO,
    ),
    Rule(
        "interrupted",
        message(r"^KeyboardInterrupt\b|SignalException: Process \d+ got signal: (?:1|2|15)\b"),
        "The rank was interrupted from outside.",
        "Resume; when nobody did it, look at who or what ends processes on the node.",
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
        "Set TMPDIR on the node to a folder with a short name, with room, and on the node's own "
        "disk.",
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
        "Rank {rank} ended the whole run by itself (MPI_Abort).",
        "Look at the log of that rank: what it wrote before says why.",
        _ISSUES + "open-mpi/ompi/tree/v4.1.x/ompi/mpi",
        where=LINES,
        weight=Weight.ECHO,
        otherwise="A rank ended the whole run by itself (MPI_Abort).",
    ),
    Rule(
        "mpi_left",
        prose(
            r"process rank (?P<rank>\d+) with PID \d+ on\s+node (?P<node>\S+) exiting\s+improperly"
            r"|exiting without calling \"?finalize"
        ),
        "Rank {rank} on {node} left before the end.",
        "Look at the log of that rank: what it wrote last says why.",
        _HELP + "/tools/orterun/help-orterun.txt",
        where=LINES,
        weight=Weight.ECHO,
        otherwise="A rank left before the end.",
    ),
)
