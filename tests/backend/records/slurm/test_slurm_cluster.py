"""What Slurm's commands print is read as partitions, nodes, GPUs, limits and accounts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from backend.records.slurm.cluster import (
    Association,
    format_time,
    parse_associations,
    parse_gpus,
    parse_partitions,
    parse_time,
)

OUTPUT = """\
short   |up  |2:00    |sn1 |mixed  |2|1   |gpu:2         |gpu:1          |(null)  |none        |
main*   |up  |infinite|sn1 |mixed  |2|1   |gpu:2         |gpu:1          |(null)  |none        |
short   |up  |2:00    |sn3 |drained|2|1   |gpu:2         |gpu:0          |(null)  |bad | disk  |
big|down|1-12:00:00|g1|idle*|64|256000|gpu:a100:4(S:0-1),gpu:h100:2|gpu:a100:1(IDX:0)|ib,avx|none|
"""


def test_one_command_shows_partitions_with_their_nodes_and_the_default_first() -> None:
    main, short, big = parse_partitions(OUTPUT)
    assert (main.name, main.is_default, main.is_up, main.time_limit_s) == ("main", True, True, None)
    assert (short.is_default, short.time_limit_s) == (False, 120)
    assert [(n.name, n.free_gpus, n.is_usable) for n in short.nodes] == [
        ("sn1", 1, True),
        ("sn3", 0, False),
    ]
    assert short.nodes[1].reason == "bad | disk"
    (node,) = big.nodes
    assert (big.is_up, big.time_limit_s, big.gpu_types) == (False, 36 * 3600, ("a100", "h100"))
    assert (node.state, node.cores, node.memory_mb) == ("idle", 64, 256_000)
    assert (node.gpus, node.free_gpus) == ({"a100": 4, "h100": 2}, 5)
    assert node.features == ("ib", "avx")


def test_gpus_are_counted_by_type_in_each_spelling_of_slurm() -> None:
    assert parse_gpus("(null)") == {}
    assert parse_gpus("gpu:a100:4(S:0-1),gpu:2,shard:8") == {"a100": 4, "": 2}
    assert parse_gpus("gpu:(null):0(IDX:N/A)") == {}
    assert parse_gpus("gpu:nvidia_a100_1g.5gb:7,gpu:a100:1(IDX:0,2)") == {
        "nvidia_a100_1g.5gb": 7,
        "a100": 1,
    }


def test_each_spelling_of_a_time_limit_is_read() -> None:
    texts = ("90", "2:00", "1:30:00", "2-12", "2-12:30", "infinite", "UNLIMITED", "")
    assert [parse_time(text) for text in texts] == [
        *(90 * 60, 120, 5400, 60 * 3600, 60 * 3600 + 1800),
        *(None, None, None),
    ]


@given(st.integers(1, 10**9))
def test_a_time_limit_survives_its_spelling_and_is_never_shortened(seconds: int) -> None:
    limit_s = parse_time(format_time(seconds))
    assert limit_s is not None
    assert seconds <= limit_s < seconds + 60


@given(st.text(alphabet="main*|:0123456789-gpu()\n \t\x00é", max_size=300))
def test_output_of_another_form_is_no_error(output: str) -> None:
    for partition in parse_partitions(output):
        assert partition.nodes
    parse_associations(output)
    parse_gpus(output)
    parse_time(output)


def test_accounts_of_a_user_come_with_their_qos() -> None:
    assert parse_associations("lab||normal,long|normal\nguest|short||\nwarning\n") == (
        Association("lab", "", ("normal", "long"), "normal"),
        Association("guest", "short", (), ""),
    )
