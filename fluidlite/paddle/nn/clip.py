"""Clips of gradients under the arguments of 2.x, where a parameter's own attribute says whether it counts."""

from __future__ import annotations

from fluidlite.clip import GradientClipByGlobalNorm

__all__ = ["ClipGradByGlobalNorm"]


class ClipGradByGlobalNorm(GradientClipByGlobalNorm):
    """Scales all gradients by the same factor, so that the L2 norm of them all is at most `clip_norm`.

    `auto_skip_clip` leaves out, in imperative mode alone, the product with a factor of 1.
    """

    def __init__(
        self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False
    ) -> None:
        super().__init__(clip_norm, group_name)
        self.auto_skip_clip = auto_skip_clip
