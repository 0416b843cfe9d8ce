"""Pictures of one square size, each with a target."""

import os

import torch
from notes import Notes
from pictures import augmented, is_readable, square_picture, white_of
from splits import divide


class PictureSet(torch.utils.data.Dataset):
    """Items are the picture, channels × side × side from 0 to 1, and its target."""

    def __init__(
        self,
        folder: str,
        samples: list[tuple[str, object, str]],
        is_validation: bool,
        settings: dict[str, object],
        notes: Notes,
    ) -> None:
        """Divide the samples: path, target and part (training, validation, test or "").

        Args:
            settings: The constants of the loader's module.
        """
        self.folder, self.reading_notes = folder, notes
        self.side, self.channels = settings["SIDE"], settings["CHANNELS"]
        self.augment = "none" if is_validation else settings["AUGMENT"]
        paths = [path for path, _, _ in samples]
        self.white = settings["WHITE"] or white_of(folder, paths, notes)
        classes = [target if isinstance(target, int) else "" for _, target, _ in samples]
        parts = [part for _, _, part in samples]
        membership = divide(parts, classes, settings["VALIDATION_SHARE"], settings["SEED"])
        notes.add_unused(paths, membership, "picture")
        self.samples = [
            (path, target)
            for (path, target, _), is_held in zip(samples, membership, strict=True)
            if is_held is is_validation
        ]
        if settings["BAD_PICTURES"] == "skip":
            bad = {path for path, _ in self.samples if not is_readable(folder, path)}
            self.samples = [sample for sample in self.samples if sample[0] not in bad]
            notes.add("Left out, because they cannot be read", sorted(bad), "picture")

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, object]:
        path, target = self.samples[index]
        try:
            picture = self.read(os.path.join(self.folder, path))
        except ValueError as error:
            raise ValueError(f"{error}, or set bad_pictures to “skip”") from error
        return augmented(picture, self.augment), target

    def read(self, path: str) -> torch.Tensor:
        return square_picture(path, self.channels, self.side, self.white)
