"""RetinaNet for regions of text: a ResNet, a feature pyramid from P3 to P7, and shared heads.

Source: BK.Synapse: distributed neural network training framework and its application in object
detection (2019), section 3.2; Lin et al., Focal loss for dense object detection (2017).

A target is a dict with `boxes` (left, top, right, bottom in pixels) and `labels` (places in the
list `classes` of the dataset). In evaluation the output for a picture has `boxes`, `scores` and
`labels`, the most certain first.
"""

import math

import torch
from torch import nn
from torch.nn import functional

BACKBONE = "resnet-50"
CLASSES = 1
CHANNELS = 3
SIDE = 512
WIDTH = 256
FIRST = 64
GAMMA = 2.0
ANCHOR = 32

ALPHA = 0.25
SCALES = (2 ** (0 / 3), 2 ** (1 / 3), 2 ** (2 / 3))
RATIOS = (1 / 2, 1, 2, 1 / 8, 1 / 6, 1 / 4)  # height : width
STRIDES = (8, 16, 32, 64, 128)  # of P3 to P7
POSITIVE, NEGATIVE = 0.5, 0.4
SCORE, OVERLAP, CANDIDATES, DETECTION_LIMIT = 0.05, 0.5, 1000, 100


class UserModel(nn.Module):
    """Input: N × CHANNELS × height × width; output: a dict for each picture."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = ResNet(BACKBONE)
        self.pyramid = Pyramid(self.backbone.widths, WIDTH)
        anchors = len(SCALES) * len(RATIOS)
        self.classify = head(WIDTH, anchors * CLASSES)
        self.regress = head(WIDTH, anchors * 4)
        # At the start each anchor is text with a probability of 0.01, as few of them are.
        nn.init.constant_(self.classify[-1].bias, -math.log(99))

    def forward(self, pictures: torch.Tensor) -> list[dict[str, torch.Tensor]]:
        levels = self.pyramid(self.backbone(pictures))
        logits = torch.cat([by_anchor(self.classify(level), CLASSES) for level in levels], 1)
        offsets = torch.cat([by_anchor(self.regress(level), 4) for level in levels], 1)
        anchors = anchors_of([level.shape[-2:] for level in levels], pictures.device)
        predictions = [
            {"logits": picture_logits, "offsets": picture_offsets, "anchors": anchors}
            for picture_logits, picture_offsets in zip(logits, offsets, strict=True)
        ]
        # ONNX has no list of an unknown length: an exported network ends in logits and offsets.
        if not self.training and not torch.compiler.is_compiling():
            for prediction in predictions:
                prediction.update(
                    detect(
                        prediction["logits"], prediction["offsets"], anchors, pictures.shape[-2:]
                    )
                )
        return predictions

    def loss(
        self, output: list[dict[str, torch.Tensor]], target: list[dict[str, torch.Tensor]]
    ) -> torch.Tensor:
        losses = []
        for prediction, picture_target in zip(output, target, strict=True):
            logits, offsets = prediction["logits"].float(), prediction["offsets"].float()
            anchors = prediction["anchors"]
            largest_label = (
                int(picture_target["labels"].max()) if len(picture_target["labels"]) else 0
            )
            if largest_label >= CLASSES:
                raise ValueError(
                    f"a label is {largest_label}, but the network has {CLASSES} classes from 0"
                )
            state, box_index = assign(anchors, picture_target["boxes"])
            positive = state == 1
            classes = torch.zeros_like(logits)
            classes[positive, picture_target["labels"][box_index[positive]]] = 1
            true_offsets = encode(anchors[positive], picture_target["boxes"][box_index[positive]])
            class_loss = focal_loss(logits, classes)[state >= 0].sum()
            box_loss = functional.smooth_l1_loss(
                offsets[positive], true_offsets, reduction="sum", beta=1 / 9
            )
            losses.append((class_loss + box_loss) / positive.sum().clamp(min=1))
        return torch.stack(losses).mean()


def focal_loss(logits: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """Return -alpha (1 - p)^gamma log p of each number, p the probability of what is true."""
    signed = logits * (2 * classes - 1)
    alpha = ALPHA * classes + (1 - ALPHA) * (1 - classes)
    # (1 - p)^gamma by its logarithm: the power has no finite slope at 0 for a gamma below 1.
    weight = torch.exp(GAMMA * functional.logsigmoid(-signed))
    return -alpha * weight * functional.logsigmoid(signed)


def anchors_of(shapes: list[tuple[int, int]], device: torch.device) -> torch.Tensor:
    """Return the anchors of all levels: around each place, scale by scale, ratio by ratio."""
    anchors = []
    for stride, (height, width) in zip(STRIDES, shapes, strict=True):
        sizes = [
            (scale * ANCHOR * stride / STRIDES[0] / ratio**0.5, ratio)
            for scale in SCALES
            for ratio in RATIOS
        ]
        half_sizes = torch.tensor([(w / 2, w * ratio / 2) for w, ratio in sizes], device=device)
        y, x = torch.meshgrid(
            (torch.arange(height, device=device) + 0.5) * stride,
            (torch.arange(width, device=device) + 0.5) * stride,
            indexing="ij",
        )
        centers = torch.stack([x, y], -1).reshape(-1, 1, 2)
        anchors.append(torch.cat([centers - half_sizes, centers + half_sizes], -1).reshape(-1, 4))
    return torch.cat(anchors)


def assign(anchors: torch.Tensor, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1, 0 or -1 (positive, negative, ignored) and the nearest box for each anchor."""
    if not len(boxes):
        none = anchors.new_zeros(len(anchors), dtype=torch.int64)
        return none, none
    overlap, box_index = overlaps(anchors, boxes).max(1)
    state = torch.where(overlap >= POSITIVE, 1, torch.where(overlap < NEGATIVE, 0, -1))
    return state, box_index


def overlaps(boxes: torch.Tensor, other_boxes: torch.Tensor) -> torch.Tensor:
    """Return the intersection over the union of each two boxes."""
    lower = torch.maximum(boxes[:, None, :2], other_boxes[:, :2])
    upper = torch.minimum(boxes[:, None, 2:], other_boxes[:, 2:])
    shared = (upper - lower).clamp(min=0).prod(2)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)[:, None] + (
        other_boxes[:, 2:] - other_boxes[:, :2]
    ).prod(1)
    return shared / (areas - shared).clamp(min=1e-9)


def encode(anchors: torch.Tensor, boxes: torch.Tensor) -> torch.Tensor:
    """Return the way from anchors to boxes: of the middle in anchors, of sizes in logarithms."""
    centers, sizes = centers_and_sizes(anchors)
    box_centers, box_sizes = centers_and_sizes(boxes)
    return torch.cat([(box_centers - centers) / sizes, torch.log(box_sizes / sizes)], 1)


def decode(offsets: torch.Tensor, anchors: torch.Tensor) -> torch.Tensor:
    """Return the boxes at these offsets: the inverse of `encode`."""
    centers, sizes = centers_and_sizes(anchors)
    centers = centers + offsets[:, :2] * sizes
    half_sizes = torch.exp(offsets[:, 2:].clamp(max=math.log(1000 / 16))) * sizes / 2
    return torch.cat([centers - half_sizes, centers + half_sizes], 1)


def centers_and_sizes(boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    sizes = boxes[:, 2:] - boxes[:, :2]
    return boxes[:, :2] + sizes / 2, sizes


def detect(
    logits: torch.Tensor, offsets: torch.Tensor, anchors: torch.Tensor, shape: tuple[int, int]
) -> dict[str, torch.Tensor]:
    """Return the boxes of one picture, each object once."""
    scores, order = torch.sigmoid(logits.float()).flatten().sort(descending=True, stable=True)
    order = order[:CANDIDATES][scores[:CANDIDATES] > SCORE]
    scores, labels, anchor_indices = scores[: len(order)], order % CLASSES, order // CLASSES
    boxes = decode(offsets[anchor_indices].float(), anchors[anchor_indices])
    last_corner = torch.tensor([shape[1], shape[0]] * 2, device=boxes.device)
    boxes = torch.minimum(boxes.clamp(min=0), last_corner)
    # Boxes of different classes are apart, so that one call serves all classes.
    kept_indices = nms(boxes + labels[:, None] * (last_corner.max() + 1), scores, OVERLAP)[
        :DETECTION_LIMIT
    ]
    return {
        "boxes": boxes[kept_indices],
        "scores": scores[kept_indices],
        "labels": labels[kept_indices],
    }


def nms(boxes: torch.Tensor, scores: torch.Tensor, overlap: float) -> torch.Tensor:
    """Return the places of the boxes to keep, the highest score first.

    Of two that overlap by more than this, the one with the higher score is kept.
    """
    order = scores.argsort(descending=True, stable=True)
    covers = (overlaps(boxes[order], boxes[order]) > overlap).cpu()
    is_remaining = torch.ones(len(order), dtype=torch.bool)
    kept_indices = []
    for index in range(len(order)):
        if is_remaining[index]:
            kept_indices.append(index)
            is_remaining &= ~covers[index]
    return order[torch.tensor(kept_indices, dtype=torch.int64, device=order.device)]


def head(width: int, outputs: int) -> nn.Sequential:
    """Four convolutions and one for the outputs; the same one on each level."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    layers.append(nn.Conv2d(width, outputs, 3, padding=1))
    for layer in layers[::2]:
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)
    nn.init.normal_(layers[-1].weight, std=0.01)
    return nn.Sequential(*layers)


def by_anchor(values: torch.Tensor, count: int) -> torch.Tensor:
    """Return N × anchors × count of a head's output."""
    return values.permute(0, 2, 3, 1).reshape(len(values), -1, count)


class Pyramid(nn.Module):
    """Levels P3 to P7 of the same width, each with what the coarser ones know."""

    def __init__(self, widths: tuple[int, ...], width: int) -> None:
        super().__init__()
        self.across = nn.ModuleList(nn.Conv2d(stage_width, width, 1) for stage_width in widths)
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in widths)
        self.p6 = nn.Conv2d(widths[-1], width, 3, stride=2, padding=1)
        self.p7 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                nn.init.zeros_(module.bias)

    def forward(self, stages: list[torch.Tensor]) -> list[torch.Tensor]:
        levels: list[torch.Tensor] = []
        for stage, lateral in zip(reversed(stages), reversed(self.across), strict=True):
            level = lateral(stage)
            if levels:
                level = level + functional.interpolate(levels[0], size=level.shape[-2:])
            levels.insert(0, level)
        p6 = self.p6(stages[-1])
        smoothed = [smooth(level) for smooth, level in zip(self.smooth, levels, strict=True)]
        return [*smoothed, p6, self.p7(functional.relu(p6))]


class ResNet(nn.Module):
    """ResNet-18 or -50 without its classifier: the outputs of its last three stages."""

    def __init__(self, name: str) -> None:
        super().__init__()
        is_deep = name == "resnet-50"
        counts = (3, 4, 6, 3) if is_deep else (2, 2, 2, 2)
        self.stem = nn.Sequential(
            nn.Conv2d(CHANNELS, FIRST, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(FIRST),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        self.stages = nn.ModuleList()
        width = FIRST
        for number, count in enumerate(counts):
            blocks = []
            for block_number in range(count):
                stride = 2 if number and not block_number else 1
                blocks.append(Block(width, FIRST * 2**number, stride, is_deep))
                width = blocks[-1].width
            self.stages.append(nn.Sequential(*blocks))
        self.widths = (width // 4, width // 2, width)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pictures: torch.Tensor) -> list[torch.Tensor]:
        values = self.stem(pictures)
        outputs = []
        for stage in self.stages:
            values = stage(values)
            outputs.append(values)
        return outputs[1:]


class Block(nn.Module):
    """Two convolutions 3 × 3, or one between two of 1 × 1 in a deep network, and a way past."""

    def __init__(self, inputs: int, inner: int, stride: int, is_deep: bool) -> None:
        super().__init__()
        self.width = 4 * inner if is_deep else inner
        if is_deep:
            parts = [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, self.width, 1, 1)]
        else:
            parts = [(inputs, inner, 3, stride), (inner, inner, 3, 1)]
        layers: list[nn.Module] = []
        for conv_inputs, conv_outputs, kernel, step in parts:
            layers.append(
                nn.Conv2d(conv_inputs, conv_outputs, kernel, step, kernel // 2, bias=False)
            )
            layers += [nn.BatchNorm2d(conv_outputs), nn.ReLU()]
        self.way = nn.Sequential(*layers[:-1])
        self.past = nn.Sequential()
        if stride > 1 or inputs != self.width:
            self.past.append(nn.Conv2d(inputs, self.width, 1, stride, bias=False))
            self.past.append(nn.BatchNorm2d(self.width))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.way(values) + self.past(values))
