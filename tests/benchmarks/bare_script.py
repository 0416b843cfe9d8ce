"""The bare script that Ringmaster is measured against: what a user would write without it.

``python bare_script.py MODEL_FOLDER LOADER_FOLDER EPOCHS BATCH_SIZE [RENDEZVOUS_FILE]``, under
mpirun. With the file, which must not exist, it trains by DistributedDataParallel, otherwise by
Horovod.
"""

import importlib.util
import os
import sys

import torch


def load(folder, name):
    spec = importlib.util.spec_from_file_location(name, f"{folder}/{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


torch.manual_seed(1)
model = load(sys.argv[1], "bks_model").UserModel()
dataset = load(sys.argv[2], "bks_dataset").UserDataset(".")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
if len(sys.argv) > 5:
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    size = int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{sys.argv[5]}", rank=rank, world_size=size
    )
    forward = torch.nn.parallel.DistributedDataParallel(model)
else:
    import horovod.torch as hvd

    hvd.init()
    rank, size, forward = hvd.rank(), hvd.size(), model
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
sampler = torch.utils.data.distributed.DistributedSampler(dataset, size, rank)
batches = torch.utils.data.DataLoader(dataset, int(sys.argv[4]), sampler=sampler, drop_last=True)
for epoch in range(int(sys.argv[3])):
    sampler.set_epoch(epoch)
    for data, target in batches:
        optimizer.zero_grad()
        model.loss(forward(data), target).backward()
        optimizer.step()
if torch.distributed.is_initialized():
    # Without this the interpreter may end before gloo's threads, and abort.
    torch.distributed.destroy_process_group()
