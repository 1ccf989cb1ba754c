"""The parts that controllers share: a base class with a thread, and a work queue."""

from reference.controller.controller import Controller
from reference.controller.work_queue import WorkQueue, is_retriable

__all__ = ["Controller", "WorkQueue", "is_retriable"]
