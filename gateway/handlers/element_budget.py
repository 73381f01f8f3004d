"""Limits the array elements and unknown tagged fields of a request from a node of the cluster.

``request.max.elements`` limits the work of decoding a client's request. A node sends a request with
an element for each of its partitions, and retries for ever if it is refused. Its requests are
limited by their size instead, as in Kafka (``socket.request.max.bytes``). This module does not
authorize nodes: the caller checks CLUSTER_ACTION before it decodes the request.
"""

from __future__ import annotations

from typing import Final

from gateway.base.sizes import KIB

#: The shortest element of a request between nodes, a broker id. More elements than fit into the
#: request at that size are those of an invalid one.
_BYTES_PER_ELEMENT: Final = 4
#: A request between nodes of more bytes is decoded in a thread: so many take 5 to 10 ms.
DECODED_AT_ONCE_MAX: Final = 64 * KIB


def elements_of_node(budget: int, size: int) -> int:
    """Return the limit for a request of ``size`` bytes from a node; ``budget`` is a client's."""
    return max(budget, size // _BYTES_PER_ELEMENT)
