"""The controller of our own quorum, pure: (state, request, now) to records and answer. KIP-631, as shipped Kafka has it."""

from gateway.controller.controller import Controller, Outcome
from gateway.controller.records import Operation, Record
from gateway.controller.refusals import refused
from gateway.controller.settings import ControllerSettings

__all__ = ["Controller", "ControllerSettings", "Operation", "Outcome", "Record", "refused"]
