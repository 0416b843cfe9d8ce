"""What is said of an exception that no rule knows: by the place it came from, never by a guess."""

from __future__ import annotations

import pytest

from backend.node.diagnosis.explainer import UNKNOWN_EXCEPTION, Failure, explain
from backend.node.diagnosis.log_text import LogPart
from backend.records.jobs.status import UNKNOWN, USER_CODE, Explanation

HEAD = "Traceback (most recent call last):\n"
USER = '  File "/jobs/7/model.py", line 12, in forward\n    {}\n'
TORCH = (
    '  File "/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 125, in forward\n'
    "    return F.linear(input, self.weight, self.bias)\n"
)
OTHER_TRACEBACK = (
    '  File "/opt/lib/python3.11/site-packages/timm/models/_hub.py", line 9, in load\n'
    "    return cfg.limits[name]\n"
)


def explained(*texts: str) -> Explanation:
    log = LogPart.from_text("rank-0.log", "".join(texts))
    return explain(Failure(0), {0: (log,)})


@pytest.mark.parametrize(
    ("lines", "exception", "cause", "message"),
    [
        (
            USER.format("return self.table[name]"),
            "KeyError: 'tp_map'",
            USER_CODE,
            "The program's code raised KeyError: 'tp_map', at model.py, line 12.",
        ),
        (
            USER.format("raise ValueError('no classes')"),
            "ValueError: no classes",
            USER_CODE,
            "The program stopped at a check of its own: ValueError: no classes, at "
            "model.py, line 12.",
        ),
        (
            USER.format("self.layer(x)") + TORCH,
            "TypeError: linear(): argument 'input' must be Tensor, not list",
            USER_CODE,
            "The program's code raised TypeError: linear(): argument 'input' must be Tensor, not "
            "list, at model.py, line 12.",
        ),
        (
            USER.format("timm.load(name)") + OTHER_TRACEBACK,
            "KeyError: 'vit'",
            UNKNOWN_EXCEPTION,
            "The program ended with KeyError: 'vit', at model.py, line 12.",
        ),
        (
            USER.format("net(x, mask=m)"),
            "TypeError: forward() got an unexpected keyword argument 'mask'",
            "call_mismatch",
            "A function was called with arguments that it does not accept: TypeError: forward() "
            "got an unexpected keyword argument 'mask', at model.py, line 12.",
        ),
        (
            USER.format("import timm") + OTHER_TRACEBACK,
            "AttributeError: module 'einops' has no attribute 'unusual'",
            "library_version",
            "timm was written for another version of einops: module 'einops' has no attribute "
            "'unusual'.",
        ),
        (
            USER.format("self.run(x)") + TORCH,
            "RuntimeError: the backend lost its worker thread",
            UNKNOWN_EXCEPTION,
            "The program ended with RuntimeError: the backend lost its worker thread, at "
            "model.py, line 12.",
        ),
        ("", "ValueError: 7", UNKNOWN_EXCEPTION, "The program ended with ValueError: 7."),
        (
            USER.format("assert batch % ranks == 0"),
            "AssertionError",
            USER_CODE,
            "The program stopped at a check of its own: AssertionError (assert batch % "
            "ranks == 0), at model.py, line 12.",
        ),
        (
            USER.format("assert shapes[3] == 8"),
            "IndexError: list index out of range",
            USER_CODE,
            "The program's code raised IndexError: list index out of range, at model.py, line 12.",
        ),
        (
            USER.format("timm.load(x)") + OTHER_TRACEBACK + TORCH,
            "RuntimeError: expected scalar type Half but found Float",
            UNKNOWN_EXCEPTION,
            "The program ended with RuntimeError: expected scalar type Half but found Float, at "
            "model.py, line 12.",
        ),
        (
            '  File "<ipython-input-7-d>", line 3, in <module>\n    return self.table[name]\n',
            "KeyError: 'tp_map'",
            USER_CODE,
            "The program's code raised KeyError: 'tp_map', at <ipython-input-7-d>, line 3.",
        ),
    ],
)
def test_code_is_blamed_only_where_the_place_and_the_kind_of_an_exception_settle_it(
    lines: str, exception: str, cause: str, message: str
) -> None:
    explanation = explained(HEAD, lines, exception)
    assert explanation.cause == cause
    assert explanation.message == message
    assert explanation.evidence[-1].text == exception
    assert bool(explanation.remedy) is (cause != UNKNOWN)


def test_the_first_of_several_tracebacks_is_the_cause_and_a_launcher_line_is_none() -> None:
    text = (
        HEAD
        + USER.format("return self.table[name]")
        + "KeyError: 'tp_map'\n"
        + HEAD
        + '  File "/opt/lib/python3.11/site-packages/torch/distributed/run.py", line 7, in run\n'
        + "subprocess.CalledProcessError: Command 'python train.py' returned exit status 1."
    )
    explanation = explained(text)
    assert (explanation.cause, explanation.evidence[-1].text) == (USER_CODE, "KeyError: 'tp_map'")
    last_explanation = explained(text[text.rindex(HEAD) :])
    assert last_explanation.cause == UNKNOWN


def test_families_that_contradict_each_other_make_no_cause_and_both_lines_are_shown() -> None:
    lines = (
        "ssh: nothing here",
        "what(): Disk quota exceeded",
        "bind() failed: Address already in use",
    )
    explanation = explained("\n".join(lines))
    assert (explanation.cause, explanation.message) == (UNKNOWN, "")
    assert [line.line for line in explanation.evidence] == [2, 3]


def test_a_cause_explains_its_effects_in_another_family() -> None:
    explanation = explained(
        "Failed to initialize NVML: Driver/library version mismatch\n"
        "NCCL WARN Connect to 10.0.0.2<45763> failed : Connection refused\n"
    )
    assert explanation.cause == "driver_mismatch"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
            "functions before calling NumCudaDevices() that might have already set an error? Error "
            "802: system not yet initialized",
            "gpu_fabric",
        ),
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has "
            "unsupported display driver / cuda driver combination",
            "driver_mismatch",
        ),
        ("RuntimeError: CUDA error: peer mapping resources exhausted", "gpu_peers"),
        ("IsADirectoryError: [Errno 21] Is a directory: '/data/train'", "file_use"),
        ("FileExistsError: [Errno 17] File exists: '/jobs/7/cache'", "file_use"),
        ("OSError: [Errno 37] No locks available", "file_locked"),
        ("OSError: [Errno 113] No route to host", "network_down"),
        ("[gpu1:7661] Signal: Illegal instruction (4)", "cpu_instruction"),
    ],
)
def test_error_numbers_and_phrases_of_the_system_and_of_cuda_are_explained(
    text: str, cause: str
) -> None:
    assert explained(text).cause == cause


def test_a_crowd_of_lines_that_belong_to_the_failure_itself_does_not_hide_its_cause() -> None:
    frames = "".join(f"frame #{n}: c10::Error::Error(c10::SourceLocation)\n" for n in range(80))
    text = "NVRM: Xid (PCI:0000:03:00): 79, GPU has fallen off the bus.\n" + frames
    assert explained(text).cause == "gpu_lost"
    went_on = "".join(f"epoch 3, step {n}, loss 0.4\n" for n in range(80))
    assert explained(text, went_on).cause == UNKNOWN


def test_an_exception_of_a_loader_worker_is_shown_in_its_own_words_not_its_wrappers() -> None:
    loader = '  File "/opt/lib/python3.11/site-packages/torch/_utils.py", line 705, in reraise\n'
    explanation = explained(
        HEAD,
        USER.format("for batch in loader:"),
        loader,
        "FileNotFoundError: Caught FileNotFoundError in DataLoader worker process 0.\n",
        "Original " + HEAD,
        USER.format("return open(path)").replace("12", "40"),
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.png'\n",
    )
    assert explanation.message == ("/data/a.png does not exist, at model.py, line 40.")


def test_a_line_that_names_what_is_missing_wins_over_an_exception_of_the_same_cause() -> None:
    # Both are of one cause, and only the first says which address it was.
    line = "[c10d] client socket has timed out after 60s while trying to connect to (gpu7, 29500)\n"
    explanation = explained(
        line, HEAD, USER.format("init_process_group()"), "RuntimeError: Socket Timeout\n"
    )
    assert explanation.message == "The ranks could not connect: gpu7 did not answer."


CAUGHT = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "OSError: [Errno 28] No space left on device",
    "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",
    "PIL.UnidentifiedImageError: cannot identify image file '/d/b.png'",
    "RuntimeError: NCCL error in: x.cpp:47, unhandled system error, NCCL version 2.14.3",
)


@pytest.mark.parametrize("caught", CAUGHT)
@pytest.mark.parametrize("count", [1, 4, 14])
def test_an_exception_after_which_the_program_wrote_its_lines_is_not_what_ended_it(
    caught: str, count: int
) -> None:
    log_lines = "".join(f"step {step}, loss 0.4\n" for step in range(count))
    explanation = explained(HEAD, USER, f"{caught}\n{log_lines}", HEAD, USER, "KeyError: 'x'\n")
    assert explanation.message == "The program's code raised KeyError: 'x', at model.py, line 12."


def test_a_surer_line_directly_above_an_exception_wins_over_its_place() -> None:
    line = "Could not load library libcudnn_cnn_infer.so.8\n"
    traceback_lines = (HEAD, USER.format("assert out.any()"), "AssertionError\n")
    assert explained(line, *traceback_lines).cause == "gpu_library_versions"
    assert explained(line, "step 1\n", *traceback_lines).cause == USER_CODE


SUBPROCESS = (
    USER.format("build()") + '  File "/usr/lib/python3.11/subprocess.py", line 9, in check_call\n'
)


@pytest.mark.parametrize(
    ("line_above", "wrapper", "says"),
    [
        (
            "ERROR core.py:396] head size 80 is not supported\n",
            "RuntimeError: Engine core initialization failed. See root cause above.\n",
            "head size 80",
        ),
        (
            "make: *** No rule to make target 'all'.  Error 2\n",
            "subprocess.CalledProcessError: Command 'make' returned non-zero exit status 2.\n",
            "No rule to make target 'all'",
        ),
        (
            "/usr/bin/ld: cannot find -lcuda\ncollect2: error: ld returned 1 exit status\n",
            "subprocess.CalledProcessError: Command 'gcc x.c' returned non-zero exit status 1.\n",
            "-lcuda is missing",
        ),
        (
            "main.c:5:10: fatal error: Python.h: No such file or directory\n",
            "subprocess.CalledProcessError: Command 'gcc x.c' returned non-zero exit status 1.\n",
            "a header of Python",
        ),
        (
            "[E] license server could not be reached\n",
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\n"
            "train.py FAILED\n----\nRoot Cause (first observed failure):\n  exitcode  : 1\n",
            "license server",
        ),
        (
            "x.cu:96: f: block: [3,0,0], thread: [5,0,0] Assertion `depth < limit` failed.\n",
            "RuntimeError: CUDA error: device-side assert triggered\n",
            "depth < limit",
        ),
        (
            "[GPU ASSERT FAILED]: the sizes do not match\n",
            "RuntimeError: CUDA error: device-side assert triggered\n",
            "the sizes do not match",
        ),
    ],
)
def test_an_exception_that_only_says_that_something_failed_is_explained_by_the_line_above_it(
    line_above: str, wrapper: str, says: str
) -> None:
    assert says in explained("epoch 1\n", line_above, HEAD, SUBPROCESS, wrapper).message


@pytest.mark.parametrize(
    ("frames", "exception", "cause"),
    [
        ("torch/optim/adam.py step", "RuntimeError: The size of tensor a (3) must", "saved_state"),
        ("torch/optim/optimizer.py load_state_dict", "KeyError: 'state'", "saved_state"),
        ("torch/optim/sgd.py __init__", "ValueError: Invalid learning rate: -1", USER_CODE),
        ("torch/distributed/distributed_c10d.py send", "RuntimeError: 7", "communication"),
        ("torch/serialization.py save", "RuntimeError: write(): fd 29 failed", "write_failed"),
        ("torch/serialization.py load", "RuntimeError: 7", UNKNOWN_EXCEPTION),
        ("numpy/lib/format.py read_array", "ValueError: cannot reshape array", "file_broken"),
        ("httpx/_client.py send", "httpx.ReadTimeout: The read timed out", "download"),
        ("huggingface_hub/file_download.py get", "OSError: 7", "download"),
        ("wandb/sdk/wandb_init.py init", "TimeoutError: 7", "service_login"),
        ("torch/nn/modules/linear.py forward", "RuntimeError: 7", USER_CODE),
    ],
)
def test_the_library_that_raised_an_unknown_exception_says_what_it_is_about(
    frames: str, exception: str, cause: str
) -> None:
    file, function = frames.split()
    frame = f'  File "/opt/lib/python3.11/site-packages/{file}", line 9, in {function}\n    f()\n'
    assert explained(HEAD, USER.format("run()"), frame, f"{exception}\n").cause == cause


@pytest.mark.parametrize(
    ("frame", "is_of_node"),
    [
        ("/usr/lib/libmpi.so.12(MPI_Alltoall+0x16c)[0x7f21bf43c67c]", True),
        ("/opt/lib/libnccl.so.2(ncclAllReduce+0x16c)[0x7f21bf43c67c]", True),
        ("/opt/lib/libucs.so.0(ucs_handle_error+0x155) [0x7f859ef607b5]", False),
        ("/jobs/7/libsample.so(decode+0x1f)[0x7f2a0b0011bf]", False),
    ],
)
def test_a_crash_within_an_installed_library_is_not_put_on_the_users_extension(
    frame: str, is_of_node: bool
) -> None:
    explanation = explained(
        "[gpu1:9] Signal: Segmentation fault (11)\n[gpu1:9] [ 0] /lib/libc.so.6(+0x3c05)\n"
        f"[gpu1:9] [ 1] {frame}\n"
    )
    assert explanation.cause == "crash"
    assert explanation.remedy.startswith("Set the node up again, so that") is is_of_node


PACKAGE = '  File "/opt/lib/python3.11/site-packages/{}/part.py", line 9, in run\n    {}\n'
INSTALLED = "── packages of this error: torch 2.4.1, transformers 4.46.0 (called here)\n"


@pytest.mark.parametrize(
    ("lines", "exception", "message"),
    [
        (
            USER.format("pl.Trainer(gpus=2)") + PACKAGE.format("lightning", "return fn(**kwargs)"),
            "TypeError: __init__() got an unexpected keyword argument 'gpus'",
            "The installed lightning lacks what the code asks for",
        ),
        (
            USER.format("trainer.fit(model)") + PACKAGE.format("lightning", "raise RuntimeError("),
            "RuntimeError: The hook `on_batch_end` was removed in v1.8. Use `on_train_batch_end`.",
            "The installed lightning lacks what the code asks for",
        ),
        (
            USER.format("algo.restore(path)") + PACKAGE.format("ray", "state = pickle.load(f)"),
            "ModuleNotFoundError: No module named 'numpy._core.numeric'",
            "A file was saved with another version of numpy than the installed one",
        ),
        (
            USER.format("load_url(address)") + PACKAGE.format("torch", "raise RuntimeError("),
            "RuntimeError: Only one file(not dir) is allowed in the zipfile",
            "A file was saved in a form that the installed version of Python, PyTorch or another",
        ),
        (
            USER.format("import spacy") + PACKAGE.format("thinc", "if torch.cuda.amp:"),
            "AttributeError: module 'torch.cuda' has no attribute 'amp'",
            "thinc was written for another version of torch: module 'torch.cuda' has no",
        ),
        (
            USER.format("Trainer(model)") + PACKAGE.format("transformers", "self.accelerate("),
            "TypeError: Accelerator.__init__() got an unexpected keyword argument 'even'",
            "transformers and Accelerator.__init__, which it calls, were not written for each",
        ),
        (
            USER.format("TrainingArguments("),
            f"TypeError: __init__() got an unexpected keyword argument 'strategy'\n{INSTALLED}",
            "The installed transformers lacks what the code asks for",
        ),
        (
            USER.format("build(config)") + PACKAGE.format("mmcv", "return obj_cls(**args)"),
            "TypeError: __init__() got an unexpected keyword argument 'pretrained'",
            "A function was called with arguments that it does not accept",
        ),
        (
            USER.format("net(x, mask=m)") + PACKAGE.format("torch", "return call(*args, **kwargs)"),
            "TypeError: forward() got an unexpected keyword argument 'mask'",
            "A function was called with arguments that it does not accept",
        ),
        (
            USER.format("encoder.load_state_dict(weights)"),
            "RuntimeError: Error(s) in loading state_dict for CLIPTextModel:\n"
            '\tUnexpected key(s) in state_dict: "embeddings.position_ids". ',
            "The saved weights fit the model CLIPTextModel but for",
        ),
    ],
)
def test_a_name_that_another_version_of_a_library_has_is_traced_to_who_asks_for_it(
    lines: str, exception: str, message: str
) -> None:
    assert explained(HEAD, lines, exception).message.startswith(message)


def test_what_numpy_says_of_a_removed_name_is_repeated() -> None:
    help_text = (
        "`np.float` was a deprecated alias of `float`. To avoid this error, use `float`. Its"
    )
    exception = f"AttributeError: module 'numpy' has no attribute 'float'.\n{help_text}\n"
    explanation = explained(HEAD, USER.format("np.float"), exception)
    assert explanation.message.endswith("'float'. To avoid this error, use `float`.")


def test_the_installed_versions_are_named_with_a_conflict_of_versions() -> None:
    lines = (
        HEAD,
        USER.format("np.float"),
        "AttributeError: module 'numpy' has no attribute 'float'\n",
    )
    assert "Installed" not in explained(*lines).message
    assert explained(*lines, INSTALLED).message.endswith(
        "Installed: torch 2.4.1, transformers 4.46.0 (called here)."
    )
