"""What controllers share: a thread that takes in events, and a queue of the objects to work on."""

from reference.controller.event_loop import EventLoop
from reference.controller.work_queue import WorkQueue, is_hopeful

__all__ = ["EventLoop", "WorkQueue", "is_hopeful"]
