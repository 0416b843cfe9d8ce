"""What leaves the cluster names no folder and no machine of it, however a text has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.services.reports.masking import Mask

ROOT = "/lab/my ring"
MACHINES = {"gpu01": "node 1", "gpu01.lab.de": "node 1", "10.3.4.5": "node 1", "Zeus": "node 2"}
MASK = Mask([ROOT, "/var/mirror"], MACHINES)


@pytest.mark.parametrize(
    ("text", "masked_text"),
    [
        (f"{ROOT}/jobs/a b/x.py", "…/jobs/a b/x.py"),
        ("file:///lab/my%20ring/x", "…"),
        ('File "/home/jane doe/net/bks_model.py", line 3', 'File "…/bks_model.py", line 3'),
        ("UserWarning: /x/y/z.py:12: old", "UserWarning: …/z.py:12: old"),
        ("open /lab/x.csv: No such file (see /a/b.c).", "open …/x.csv: No such file (see …/b.c)."),
        ("--data=/data/set1 --cache=~/cache/x", "--data=… --cache=…"),
        ("/home/jane doe/data", "…"),
        ("/data/x does not exist", "… does not exist"),
        ("nas:/export/ring and /data, /2024/a", "… and …, …"),
        ("C:\\Users\\jane\\x.txt", "…/x.txt"),
        ("see \\\\server\\share\\x", "see …"),
        ("http://gpu01:6006/ http://10.0.0.1/ ssh://jane@host/x", "… … …"),
        ("http://wiki.lab.lan/x https://jane@arxiv.org/", "… …"),
        ("rank 3 on GPU01 and gpu01-ib0, zeus", "rank 3 on node 1 and node 1-ib0, node 2"),
        ("root@gpu07: denied by 192.168.1.7:22", "…: denied by …:22"),
        ("::1 fe80::1 2001:db8::1 3c:ec:ef:00:11:22 box.local", "… … … … …"),
    ],
)
def test_a_path_or_a_machine_is_hidden(text: str, masked_text: str) -> None:
    assert MASK(text) == masked_text


@pytest.mark.parametrize(
    "text",
    [
        "see https://arxiv.org/abs/1706.03762?x=1",
        "validation/loss 3/4 img/s, train / val, and/or",
        "recall@k, mAP@50, coco@2",
        "$\\alpha$ 12:30:11 std::vector",
        "rank-3.log:214, torch 2.13.0+cpu, CUDA 12.4",
        "</b><script>",
        "./installers/run job bundle 20261130-5vwexu",
    ],
)
def test_other_text_stays(text: str) -> None:
    assert MASK(text) == text


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(_NAMES, _NAMES, st.sampled_from([ROOT, "/var/mirror"]))
def test_no_text_around_it_shows_the_data_root(before: str, after: str, root: str) -> None:
    assert root not in MASK(f"{before}{root}{after}")
    assert root not in MASK(f"{before}'{root}/jobs/{after}'")


@given(_NAMES, st.sampled_from(sorted(MACHINES)), st.sampled_from(" /@:=\"'(-_\n"))
def test_no_text_around_it_shows_a_machine(before: str, machine: str, sign: str) -> None:
    assert machine not in MASK(f"{before}{sign}{machine}{sign}{before}")


@given(st.lists(st.from_regex(r"[A-Za-z_][A-Za-z_-]{2,8}", fullmatch=True), min_size=2, max_size=4))
def test_no_folder_of_an_absolute_path_is_shown(folders: list[str]) -> None:
    path = "/".join(("", *folders, "x.py"))
    for text in (path, f"in {path}: bad", f"'{path}'", f"--file={path}", f"host1:{path}"):
        masked_text = MASK(text)
        assert not any(f"/{folder}" in masked_text for folder in folders)
