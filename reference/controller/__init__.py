"""The parts that controllers share: an event loop in a thread, and a queue of the objects to work on."""

from reference.controller.event_loop import EventLoop
from reference.controller.work_queue import WorkQueue, is_hopeful

__all__ = ["EventLoop", "WorkQueue", "is_hopeful"]
