"""Open MPI's help texts by topic: those of PRRTE, PMIx and ORTE about a launch.

Texts that only warn are left out: a run continues after them.
"""

from __future__ import annotations

from backend.node.diagnosis.rule import LINES, Rule, Weight, Where, message, prose

_PRRTE = "https://github.com/openpmix/prrte/tree/master/src"
_OMPI = "https://github.com/open-mpi/ompi/tree/v5.0.x"
_PMIX = "https://github.com/openpmix/openpmix/tree/master/src"
_LAUNCH = (Where.MPIRUN,)
_SETUP = "Set the node up again."

RULES = (
    Rule(
        "mpi_slots",
        prose(
            r"There are not enough (?:nodes|slots|resources)\s+(?:in|on|available)"
            r"|Either there are not enough slots available|requested a conflicting number of"
            r"|directives resulted in too many processes\s+being placed on a node"
            r"|Requested more processes \(\d+\) than there are available slots"
            r"|Not enough slots on the hosts to fulfill|Job requires \d+ procs\b"
        ),
        "mpirun has fewer slots than processes.",
        "Choose fewer processes, or nodes with more GPUs or cores.",
        _PRRTE + "/mca/rmaps/base/help-prte-rmaps-base.txt",
    ),
    Rule(
        "mpi_binding",
        prose(
            r"requested more cpus per process|An insufficient number of CPUs was found"
            r"|there being more processes on a node than\s+available cpus"
            r"|not\s+enough cpus are available to meet the request"
            r"|appropriate target could not\s+be found on node"
            r"|No (?:bindable objects|objects) of the specified type"
            r"|multiple cpus-per-proc was given, but|attempt to assign hardware locations"
            r"|bind to resources already allocated on a node\s+to a different process"
            r"|specified\s+a non-existent CPU"
        ),
        "mpirun could not give each process its own cores: the node has too few.",
        "Choose fewer processes on this node.",
        _PRRTE + "/mca/rmaps/base/help-prte-rmaps-base.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_bind_refused",
        prose(
            r"resulted in the processes being unbound(?:.|\n){0,200}?This is an error"
            r"|at least one node does NOT\s+support binding processes"
            r"|tried to bind memory for a new process|hwloc_set_(?:cpu|mem)bind returned"
        ),
        "mpirun could not bind a process to its cores: the node does not allow it.",
        "Check which cores the node, its container or its batch system gives to the user.",
        _PRRTE + "/mca/odls/base/help-prte-odls-base.txt",
        where=LINES,
    ),
    Rule(
        "mpi_option",
        prose(
            r"(?:directive|policy) is not recognized:"
            r"|contains an unrecognized (?:qualifier|modifier)"
            r"|match_arg \([^)]*\): unrecognized argument (?P<what>\S+)|unable to parse user argum"
            r"|Conflicting directives for|prefix was specified in multiple ways"
            r"|does not support multiple different [^\n]*(?:prefix|options)"
            r"|An invalid value was (?:supplied for an|given for the number of processes)"
            r"|framework parameters can only take a single negation"
            r"|Two mutually-exclusive MCA variables were specified"
            r"|policy was provided that is not supported"
            r"|A deprecated MPI_Info key was used\. It is unclear"
            r"|cmd line to launch remote daemons is too long"
        ),
        "mpirun does not understand an option or a setting.",
        "Remove OMPI_MCA and PRTE_MCA variables from the job's environment. If there are none, "
        "the node has another version of Open MPI: set it up again.",
        _PRRTE + "/mca/rmaps/base/help-prte-rmaps-base.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_hosts",
        prose(
            r"No nodes are available for this job"
            r"|unable to find an allocation for this job|unable to open the\s+(?:rankfile|hostfile)"
            r"|(?:bad parameter|parse error) in the\s+hostfile|invalid syntax in (?:the rankfile"
            r"|seq)"
            r"|contains multiple definitions of the slot\s+count"
            r"|requested hosts (?:is|are) not included in the current\s+allocation"
            r"|A relative host was (?:specified|improperly)|didn't find any hosts in\s+the map"
            r"|contained a node \([^)]*\) that is not in your\s+allocation"
        ),
        "mpirun has no nodes for the processes: its list of hosts does not match.",
        "Start the job again. Remove OMPI_MCA and PRTE_MCA variables from its environment, and "
        "start it outside any other batch system.",
        _PRRTE + "/util/hostfile/help-hostfile.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_node_name",
        prose(
            r"A daemon has no recorded node|was detected to be missing a daemon:"
            r"(?:\s+Node:\s+(?P<node>\S+))?"
        ),
        "The hostname of node {node} differs from the name mpirun was given.",
        "Make the names match: the output of “hostname” on the node, and the name other nodes "
        "use for it.",
        _PRRTE + "/mca/plm/base/help-plm-base.txt",
        where=_LAUNCH,
        otherwise="The node's hostname differs from the name mpirun was given.",
    ),
    Rule(
        "mpi_missing",
        prose(
            r"unable to find an underlying prterun|could not execute the underlying prterun"
            r"|not able to find (?:the executable|an executable in your)"
            r"|unable to find any mechanism to launch proceses|unable to locate a\s+usable \"srun\""
            r"|Sorry!\s+You were supposed to get help about:(?:.|\n){0,200}?"
            r"couldn't (?:open the help file|find any help)"
        ),
        "Open MPI on a node is incomplete: it does not find its own programs or files.",
        _SETUP,
        _OMPI + "/ompi/tools/mpirun/help-mpirun.txt",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_daemon",
        prose(
            r"A daemon died unexpectedly (?:with status|on signal)"
            r"|unable to establish a communication connection to the\s+specified daemon"
            r"|srun returned non-zero exit status \(\d+\) from launching"
            r"|sent? a message to a process whose\s+address is unknown"
            r"|no active out-of-band transports|daemons could not be ordered to"
            r"|(?:tcp_peer_(?:try_)?connect|ORTE_ERROR_LOG|PRTE ERROR)[^\n]*"
            r"(?:Connection refused|unreachable|No route to host)"
        ),
        "Open MPI's daemon on another node did not start, or could not connect to mpirun.",
        "Check that firewalls allow all ports between the job's nodes, and that each node has "
        "the same version of Open MPI.",
        _PRRTE + "/mca/errmgr/base/help-errmgr-base.txt",
        where=_LAUNCH,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_daemon",
        prose(
            r"unable to (?:run bstrap_proxy|connect from \"[^\"]+\" to|get host address for)"
            r"|HYD\w+ \([^)]*\): (?:error waiting for event|assert|launcher)"
            r"|process manager (?:error waiting|returned error)"
        ),
        "MPI's daemon on another node did not start, or could not connect to mpirun.",
        "Check that each node reaches the others by the names that mpirun was given, and that "
        "firewalls allow all ports between them.",
        "https://github.com/pmodels/mpich/tree/main/src/pm/hydra",
        where=_LAUNCH,
        weight=Weight.VAGUE,
    ),
    Rule(
        "node_lost",
        message(
            r"A critical communication path was lost to:(?:(?:.|\n){0,200}?Node:\s+(?P<node>\S+))?"
            r"|failed to receive scheduled heartbeat"
        ),
        "mpirun lost its daemon on {node}: the node, its network or the daemon failed.",
        "Check that the node is on and reachable, then resume.",
        _PRRTE + "/tools/prun/help-prun.txt",
        where=_LAUNCH,
        weight=Weight.VAGUE,
        otherwise="mpirun lost its daemon on a node: the node, its network or the daemon failed.",
    ),
    Rule(
        "mpi_interface",
        prose(
            r"Both TCP interface include and exclude lists|specified network is not parseable"
            r"|networks to be excluded for TCP[^\n]*\s+resulted in no networks"
            r"|No sockets were able to be opened on the available protocols"
            r"|no (?:available|non-loopback)\s+interfaces were found after applying"
            r"|No available network interface found matching user provided"
        ),
        "A network that MPI was set to use does not exist on a node.",
        "Choose nodes that share a subnet; check their network cards and addresses.",
        _PRRTE + "/mca/oob/tcp/help-oob-tcp.txt",
        where=LINES,
    ),
    Rule(
        "mpi_security",
        prose(r"connection was refused due to a failure to\s+authenticate"),
        "The nodes use different authentication for MPI processes: usually Munge runs on only "
        "one of them.",
        "Have Munge set up the same way on all nodes, or removed from them.",
        _PRRTE + "/mca/oob/tcp/help-oob-tcp.txt",
        where=LINES,
    ),
    Rule(
        "user_unknown",
        message(
            r"^The user \(\d+\) is unknown to the system|unable to obtain the username"
            r"|KeyError: 'getpwuid\(\): uid not found: (?P<uid>\d+)'|[Nn]o passwd entry for"
            r"|You don't exist, go away"
        ),
        "The user who runs the job is unknown on the node: the user ID has no name.",
        "Add the user on the node, or check the node's directory service (LDAP, SSSD).",
        _PRRTE + "/mca/plm/ssh/help-plm-ssh.txt",
    ),
    Rule(
        "mpi_executable",
        prose(
            r"No executable was specified on the|specified fork agent was not found"
            r"|execvp error on file \S+ \(No such file|problem with execution of [^\n]*\[Errno 2\]"
            r"|but the specified\s+executable could not be found"
        ),
        "mpirun did not find the program on a node of the job.",
        _SETUP,
        _PRRTE + "/tools/prun/help-prun.txt",
        where=_LAUNCH,
    ),
    Rule(
        "mpi_workdir",
        prose(
            r"could not\s+(?:find|access)\s+the specified working directory:"
            r"(?:\s+Working directory:\s+(?P<folder>[^\n]+))?"
        ),
        "The run's folder {folder} does not exist on a node.",
        "Check that the node sees the data root under the same path.",
        _PRRTE + "/tools/prun/help-prun.txt",
        where=_LAUNCH,
        otherwise="The run's folder does not exist on a node.",
    ),
    Rule(
        "node_memory",
        message(r"A process exceeded memory limits:|exceeded the specified limit on memory usage:"),
        "A process exceeded its memory limit on the node.",
        "Choose a smaller batch size, fewer processes on the node or fewer loader workers.",
        _PRRTE + "/tools/prun/help-prun.txt",
        where=LINES,
    ),
    Rule(
        "mpi_folder_path",
        prose(
            r"restriction for Unix's socket's path-length|File name too long[^\n]*(?:pmix|ompi"
            r"|prte)"
        ),
        "The path of Open MPI's folder for the run is too long.",
        "Set TMPDIR on the node to a folder with a short name, such as /tmp.",
        _PMIX + "/server/help-pmix-server.txt",
        where=LINES,
    ),
    Rule(
        "mpi_session",
        prose(
            r"PMIx server was unable to setup a rendezvous"
            r"|temporary directories required by PRTE\s+is on the list of prohibited"
            r"|unable to set\s+a?\s*directory to the desired mode"
        ),
        "Open MPI could not use its folder for the run.",
        "Set TMPDIR on the node to a folder with a short name and enough space, on the node's "
        "own disk.",
        _PMIX + "/server/help-pmix-server.txt",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_component",
        prose(
            r"unable to find any usable plugins for the|None of the [\w/]+ components? (?:were|was)"
            r"|No components were able to be opened in the (?!pml)\S+ framework"
            r"|User specified an accelerator component via"
        ),
        "Open MPI lacks a component that it needs or was set to use.",
        "Set the node up again; remove OMPI_MCA and PMIX_MCA variables from the job's environment.",
        _PMIX + "/runtime/help-pmix-runtime.txt",
        where=LINES,
    ),
    Rule(
        "mpi_init",
        prose(
            r"PMIx_Init failed for the following reason|requires access to a local PMIx server"
            r"|prte_init\(\)\" failed for some reason|pmix_init failed for some reason"
            r"|internal error has occurred during the startup of (?:Open MPI|PMIx)"
        ),
        "MPI failed to start; the lines below are all it printed.",
        "Usually the MPI library, mpirun and Horovod come from different installations: set the "
        "node up again.",
        _OMPI + "/ompi/runtime/help-mpi-runtime.txt",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_internal",
        prose(
            r"An internal error has occurred in (?:ORTE|PRTE|PRRTE)"
            r"|Assertion failed in file \S+ at line \d+"
        ),
        "MPI stopped with an internal error; the lines below are all it printed.",
        "Check that all nodes have the same version of Open MPI and that their names resolve to "
        "the right addresses. If so, set them up with another version of Open MPI.",
        _PRRTE + "/mca/errmgr/base/help-errmgr-base.txt",
        where=LINES,
        weight=Weight.VAGUE,
    ),
    Rule(
        "mpi_use",
        prose(
            r"attempted to initialize\s+MPI(?:.|\n){0,80}?(?:more than once|after MPI_FINALIZE)"
            r"|MPI_FINALIZE was invoked (?:before|multiple times)"
            r"|\*\*\* The (?P<call>MPI_\w+)\(\) function was called (?:before MPI_INIT"
            r"|after MPI_FIN)"
            r"|Attempting to use an MPI routine (?:before initializ|after finaliz)"
        ),
        "The code used MPI before it was initialised or after it was finalised, or initialised "
        "it twice.",
        "The job initialises and finalises MPI itself: remove both from the code.",
        _OMPI + "/ompi/runtime/help-mpi-runtime.txt",
        where=LINES,
    ),
    Rule(
        "mpi_fabric",
        prose(
            r"failed an OFI Libfabric library call|OFI MTL was not able to find endpoint"
            r"|failed to register your buffer|Open MPI OFI MTL is aborting|pml_ucx\.c:\d+ +Error: "
            r"|Error: (?:pml|mtl|btl)_\w+\.c:\d+"
            r"|PML (?:ucx|cm|\w+) cannot be selected|ucp_ep_create[^\n]*failed"
            r"|UCX +(?:ERROR|FATAL)[^\n]*(?:ibv_\w+[^\n]* failed|Destination is unreachable"
            r"|no (?:\w+ ){1,3}transport)|failed to get peer address|Open MPI \(openib\) BTL failed"
        ),
        "MPI could not use the fast network of a node (InfiniBand, RoCE or Omni-Path).",
        "Check the card and its driver on the node, or choose nodes with a working one.",
        _OMPI + "/ompi/mca/mtl/ofi/help-mtl-ofi.txt",
        where=LINES,
    ),
    Rule(
        "mpi_version",
        prose(
            r"different architecture\. The detected node was|following node differs in endianness"
            r"|Symbol `\w+' has different size in shared object"
        ),
        "The nodes, or the parts of Open MPI on one of them, have different versions.",
        "Set the nodes up again, so that all have the same version.",
        _OMPI + "/ompi/runtime/help-mpi-runtime.txt",
        where=LINES,
    ),
    Rule(
        "mpi_internal",
        message(
            r"(?:ORTE_ERROR_LOG|PRTE ERROR|PMIX ERROR): (?!Timeout|Unreach|A message|Error in)"
            r"(?P<what>[^\n]{1,99}) in file"
        ),
        "MPI stopped with an internal error, “{what}”; the lines below are all it printed.",
        "Check that all nodes have the same version of Open MPI and that their names resolve to "
        "the right addresses. If so, set them up with another version of Open MPI.",
        _PRRTE + "/mca/errmgr/base/help-errmgr-base.txt",
        where=LINES,
        weight=Weight.ECHO,
    ),
)
