"""How many array elements and unknown tagged fields a request from another node of the cluster may
have.

``request.max.elements`` bounds what a client can make the server decode. A node states facts about
every partition that it has, in as many elements as that takes, and repeats a request that is
refused for ever. Its requests are bounded by their bytes instead, as in Kafka
(``socket.request.max.bytes``). This module does not decide who is a node: the caller checks that
the principal has CLUSTER_ACTION, before it decodes anything.
"""

from __future__ import annotations

from typing import Final

#: No element of a request between nodes is shorter: the shortest is a broker id. One of fewer bytes
#: is no request's.
_BYTES_PER_ELEMENT: Final = 4


def elements_of_node(budget: int, size: int) -> int:
    """The budget for a request of ``size`` bytes from a node, where a client's is ``budget``."""
    return max(budget, size // _BYTES_PER_ELEMENT)
