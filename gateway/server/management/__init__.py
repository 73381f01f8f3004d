"""The management port: /metrics, /livez, /readyz and /status over HTTP."""
