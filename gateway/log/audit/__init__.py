"""The audit log: a partition log whose damaged parts are passed over."""
