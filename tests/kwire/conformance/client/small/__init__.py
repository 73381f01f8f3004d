"""Small clients on the codec, which keep the rules or break one of them.

    python -m tests.kwire.conformance.client.small KIND FAULT BOOTSTRAP TOPIC

A ``consumer`` reads partition 0 from the beginning and prints every value; a ``member`` does so in
a group, a ``sasl`` consumer after SASL/PLAIN. A ``producer`` writes known records and ends. FAULT
``none`` keeps all rules; every other one is a word of ``fault_table``.
"""
