"""Pictures from files: upright, of one mode and size, as tensors from 0 to 1."""

import os
import random
import struct
import zlib

import numpy
import torch
from notes import Notes
from PIL import Image, ImageOps, UnidentifiedImageError

MOST_EXAMINED = 128
READ_ERRORS = (
    OSError, SyntaxError, ValueError, LookupError, TypeError, EOFError,
    struct.error, zlib.error, Image.DecompressionBombError,
)  # fmt: skip
"""What Pillow raises for a file that is no picture, or is cut off."""


def open_picture(
    path: str, channels: int, about: int = 0, turn: bool = True, white: float = 0
) -> Image.Image:
    """Open a picture as grey (1 channel) or RGB (3); of more than 8 bits as grey floats.

    Args:
        about: A side in pixels: a much larger JPEG is decoded to about that, which is faster.
        turn: Turn it as its EXIF says.
        white: Of a picture of more than 8 bits, the value that becomes 255; 0: its largest.

    Raises:
        ValueError: It cannot be read; the message names the file.
    """
    try:
        with Image.open(path) as file:
            if about:
                file.draft("L" if channels == 1 else "RGB", (about, about))
            image = ImageOps.exif_transpose(file) if turn else file
            return in_mode(image, channels, white)
    except READ_ERRORS as error:
        name = "/".join(path.split(os.sep)[-2:])
        reason = "it is no picture" if isinstance(error, UnidentifiedImageError) else str(error)
        raise ValueError(f"{name} cannot be read ({reason}): remove or replace it") from error


def in_mode(image: Image.Image, channels: int, white: float = 0) -> Image.Image:
    """Bring any mode to 8 bits of grey or RGB; what is transparent becomes white.

    Of more than 8 bits no level is lost: the values become floats, which may be beyond 0 and 255.
    """
    if is_deep(image):
        values = numpy.asarray(image).astype(numpy.float32)
        return Image.fromarray(values * (255 / (white or white_for(values, image.mode))))
    if image.mode in ("P", "PA", "LA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if channels == 1 else "RGB")


def is_deep(image: Image.Image) -> bool:
    return image.mode.startswith("I") or image.mode == "F"


def white_for(values: numpy.ndarray, mode: str) -> float:
    """The value that becomes white, by the largest: 1, or all of 8, 10, 12, 14, 16 … bits.

    Floats from 0 to 1 go a little beyond 1 after filters.
    """
    largest = float(numpy.nanmax(values))
    if mode == "F" and largest < 2:
        return 1
    return next(
        (2.0**bits - 1 for bits in (8, 10, 12, 14, 16, 24) if largest < 2**bits), 2.0**32 - 1
    )


def white_of(folder: str, paths: list[str], notes: Notes) -> float:
    """The value that becomes white in all pictures of more than 8 bits, 0 if there are none."""
    deep_paths, reduced_paths, white = [], [], 0.0
    # Drawn, for of sorted names each second one may be of one kind.
    for path in sorted(random.Random(0).sample(paths, min(len(paths), MOST_EXAMINED))):
        try:
            with Image.open(os.path.join(folder, path)) as image:
                if is_deep(image):
                    deep_paths.append(path)
                    white = max(white, white_for(numpy.asarray(image), image.mode))
                elif any(";16" in str(tile[3]) for tile in image.tile):
                    reduced_paths.append(path)
        except READ_ERRORS:
            continue
    share = f", of {MOST_EXAMINED} examined" if len(paths) > MOST_EXAMINED else ""
    reason = f"Of more than 8 bits, read so that {white:.10g} becomes 1{share}"
    notes.add(reason, deep_paths, "picture")
    notes.add(f"Colours of 16 bits, of which 8 are read{share}", reduced_paths, "picture")
    return white


def tensor_of(image: Image.Image, channels: int = 1) -> torch.Tensor:
    """Channels × height × width, from 0 (black) to 1; grey is repeated for 3 channels."""
    values = torch.from_numpy(numpy.array(image)).float() / 255
    if values.ndim == 2:
        return values.repeat(channels, 1, 1)
    return values.permute(2, 0, 1).contiguous()


def square_picture(path: str, channels: int, side: int, white: float = 0) -> torch.Tensor:
    """The middle of a picture, side × side pixels."""
    image = open_picture(path, channels, side, white=white)
    return tensor_of(ImageOps.fit(image, (side, side)), channels)


def augmented(picture: torch.Tensor, augmentation: str) -> torch.Tensor:
    """Move a picture by up to an eighth of its side ("crop"), and flip half of them."""
    if augmentation == "none":
        return picture
    height, width = picture.shape[1:]
    margin = max(1, min(height, width) // 8)
    wide = torch.nn.functional.pad(picture[None], [margin] * 4, mode="reflect")[0]
    top, left = torch.randint(0, 2 * margin + 1, (2,)).tolist()
    picture = wide[:, top : top + height, left : left + width]
    return picture.flip(2) if augmentation == "flip and crop" and torch.rand(1) < 0.5 else picture


def picture_size(path: str) -> tuple[int, int] | None:
    """Width and height of an upright picture by its first bytes, None if it cannot be read."""
    try:
        with Image.open(path) as image:
            is_turned = image.getexif().get(0x0112, 1) >= 5
            return image.size[::-1] if is_turned else image.size
    except READ_ERRORS:
        return None


def is_readable(folder: str, path: str) -> bool:
    """Whether a picture can be read to its end."""
    try:
        open_picture(os.path.join(folder, path), 1, 32)
    except ValueError:
        return False
    return True
