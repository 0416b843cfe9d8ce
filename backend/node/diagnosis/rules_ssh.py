"""Messages of SSH, which mpirun uses to reach other nodes, and of node names."""

from __future__ import annotations

from backend.node.diagnosis.rule import ANYWHERE, Rule, Where, message

_ISSUES = "https://github.com/"
_LAUNCH = (Where.MPIRUN,)

RULES = (
    Rule(
        "ssh_key_changed",
        message(
            r"REMOTE HOST IDENTIFICATION HAS CHANGED"
            r"(?:(?:.|\n){0,1500}?host key for (?P<host>\S+) has changed)?"
        ),
        "The SSH host key of {host} has changed since it was accepted.",
        "Find out why. If the node was reinstalled, remove it and add it again.",
        _ISSUES + "kftsehk/phy-clusters/issues/29",
        where=_LAUNCH,
        otherwise="The SSH host key of a node has changed since it was accepted.",
    ),
    Rule(
        "ssh_key_unknown",
        message(
            r"Host key verification failed|authenticity of host '(?P<host2>[^'\s]+)[^\n]*can't be"
            r"|No \w+ host key is known for (?P<host>\S+) and you have requested strict"
        ),
        "The SSH host key of {host} is unknown to the node that starts the run.",
        "Set the nodes up again: each node then gets the keys of the others.",
        _ISSUES + "microsoft/VirtualClient/pull/752",
        where=_LAUNCH,
        otherwise="The SSH host key of a node is unknown to the node that starts the run.",
    ),
    Rule(
        "ssh_denied",
        message(
            r"(?:(?<![\w.@-])(?P<host>[\w.@-]{1,255}): )?Permission denied \("
            r"(?:publickey|password|gssapi|hostbased|keyboard)[^)]*\)"
            r"|^[^\n]*Permission denied, please try again"
            r"|[Yy]our (?:password|account) has expired|This account is currently not available"
            r"|Access denied[ :][^\n]*(?:pam_slurm|no active jobs|user \S+ \(uid=)"
            r"|[Pp]assword change required but no TTY|a (?:password|terminal) is required"
            r"|pam_nologin|Agent admitted failure to sign|Received disconnect from \S+ [^\n]*\bauth"
        ),
        "{host} rejected the cluster's key.",
        "Set the node up again: it then gets the cluster's key.",
        _ISSUES + "horovod/horovod/issues/467",
        where=_LAUNCH,
        otherwise="A node rejected the cluster's key.",
    ),
    Rule(
        "ssh_unreachable",
        message(
            r"ssh: connect to host (?P<host>\S+) port \d+: (?P<why>[^\n]+)"
            r"|(?:ssh|kex)_exchange_identification: |Connection timed out during banner exchange"
            r"|packet_write_wait: Connection to|client_loop: send disconnect"
            r"|Timeout, server \S+ not responding|Connection to \S+ closed by remote host"
            r"|Connection (?:reset|closed) by \S+ port \d+|ssh_dispatch_run_fatal: "
            r"|session request failed: Session open refused by peer"
            r"|[Nn]o (?:more )?sessions|administratively prohibited"
        ),
        "{host} did not answer SSH ({why}).",
        "Check that the node is on, and that its SSH server runs and is not overloaded.",
        _ISSUES + "open-mpi/ompi/issues/6379",
        where=_LAUNCH,
        otherwise="A node's SSH server closed the connection.",
    ),
    Rule(
        "ssh_key_file",
        message(
            r"Bad owner or permissions on (?P<file>\S+)|UNPROTECTED PRIVATE KEY FILE"
            r"|Permissions \d+ for '(?P<file3>[^'\n]+)' are too open"
            r"|Load key [^\n]*: (?:invalid format|error in libcrypto)"
            r"|Too many authentication failures|Bad configuration option: (?P<file2>\S+)"
            r"|terminating, \d+ bad configuration options"
            r"|no matching (?:host key type|key exchange method|cipher) found"
        ),
        "SSH on the node that starts the run cannot use its key or settings ({file}).",
        "Set the node up again: this writes the cluster's key and settings again.",
        "https://man.openbsd.org/ssh",
        where=_LAUNCH,
        otherwise="SSH on the node that starts the run cannot use its key or settings.",
    ),
    Rule(
        "host_name",
        message(
            r"(?:ssh: )?Could not resolve hostname (?P<host>[^\s:]+)"
            r"|getaddrinfo[^\n]*: Name or service not known|gaierror: \[Errno -\d+\]"
            r"|Unable to resolve hostname to a \(local\) address"
        ),
        "The name {host} does not resolve to an address.",
        "Add the node by its address, or fix the name resolution on the nodes.",
        "https://man.openbsd.org/ssh",
        where=ANYWHERE,
        otherwise="A node's name does not resolve to an address.",
    ),
    Rule(
        "ssh_missing",
        message(
            r"plm_(?:rsh|ssh)_agent\"?\s+(?:was\s+set\s+to\s+a\s+path\s+that\s+could\s+not\s+be\s+f"
            r"ound|not found)"
            r"|agent\(s\) could not be found|\bssh: (?:command )?not found"
            r"|agents? specified[^\n]*(?:could not be found|not found)"
        ),
        "The node that starts the run has no SSH client.",
        "Install the SSH client on that node.",
        _ISSUES + "open-mpi/ompi/blob/v4.1.x/orte/mca/plm/rsh/help-plm-rsh.txt",
        where=_LAUNCH,
    ),
)
