"""What the metadata records add up to: the cluster's image. Pure: image and record in, image changed; no files, no clock."""

from gateway.cluster.delta import Delta
from gateway.cluster.fold import FoldError, apply
from gateway.cluster.image import Image
from gateway.cluster.loader import Loader
from gateway.cluster.snapshot import image_records

__all__ = ["Delta", "FoldError", "Image", "Loader", "apply", "image_records"]
