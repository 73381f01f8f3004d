"""Rehearses ``kwire rescue`` on processes of real Kafka: loses controllers, writes the rescued
directory, starts it, and proves that nothing of the cluster is gone.

``cluster`` is the cluster with the steps that all cases share, ``traffic`` the clients,
``services`` what starts brokers again, ``cases`` what is lost and how it comes back, ``damage``
what a bad disk does, ``report`` the table, ``lag`` how far a gateway's copy is behind. The judge is
Kafka with its tools and clients; kwire's own quorum takes no part.
"""
