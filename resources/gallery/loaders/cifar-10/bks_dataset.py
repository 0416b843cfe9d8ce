"""Reads CIFAR-10: 50,000 pictures to train on and 10,000 for validation, in 10 classes.

Source: Krizhevsky, Learning multiple layers of features from tiny images (2009).
"""

from cifar import Cifar

AUGMENT = "none"


class UserDataset(Cifar):
    """The pictures to train on: see cifar.py."""

    batches = tuple(f"data_batch_{number}" for number in range(1, 6))
    augment = AUGMENT

    def __init__(self, folder: str) -> None:
        meta = ("batches.meta", "batches.meta.txt", "label_names")
        super().__init__(folder, [*self.batches], "labels", 1, 0, meta, self.augment)


class UserValDataset(UserDataset):
    """The pictures of the test batch."""

    batches = ("test_batch",)
    augment = "none"
