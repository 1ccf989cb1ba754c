"""The shared parts of controllers: an event loop in a thread, and a work queue."""

from reference.controller.event_loop import EventLoop
from reference.controller.work_queue import WorkQueue, is_retriable

__all__ = ["EventLoop", "WorkQueue", "is_retriable"]
