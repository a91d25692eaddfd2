"""ViT and the image models that share its attention: DeiT, DINOv2, I-JEPA, MAE, MSN."""

from contextlib import AbstractContextManager

from torch import nn

from attnrate.spectra.adapters.interface import modules_of, watch_interface
from attnrate.spectra.capture import Edit, See, Site

_CLASSES = (
    "ViTAttention",
    "DeiTAttention",
    "Dinov2Attention",
    "Dinov2WithRegistersAttention",
    "IJepaAttention",
    "ViTMAEAttention",
    "ViTMSNAttention",
)


class ViT:
    """Encoders of patches, which have no padding."""

    family = "vit"

    def sites(self, model: nn.Module) -> list[Site]:
        """One site an encoder layer."""
        return [
            Site(
                name=path,
                module=part,
                heads=part.num_attention_heads,
                groups=part.num_attention_heads,
                m_h=part.head_dim,
                streams=(None, None),
            )
            for path, part in modules_of(model, *_CLASSES)
        ]

    def watch(
        self, model: nn.Module, sites: list[Site], see: See | None = None, edit: Edit | None = None
    ) -> AbstractContextManager[None]:
        """Through the attention interface."""
        return watch_interface(sites, see, edit)
