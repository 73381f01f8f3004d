"""Folds metadata records into the image of a cluster (``MetadataImage``, ``MetadataDelta``).

Pure: an image and a record in, the image changed; no files, no clock.
"""

from kwire.cluster.delta import Delta
from kwire.cluster.fold import apply
from kwire.cluster.image import Image
from kwire.cluster.kind import FoldError
from kwire.cluster.loader import Loader
from kwire.cluster.snapshot import image_records

__all__ = ["Delta", "FoldError", "Image", "Loader", "apply", "image_records"]
