"""Distributes the tests of a run on a real cluster among its workers. The tests of one group run in one worker."""

from typing import Any

from xdist.scheduler import LoadGroupScheduling


class GroupScheduler(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """Continues after the loss of a worker. xdist would run the lost test again, and wait for tests that have ended."""

    def remove_node(self, node: Any) -> str | None:
        """Queue the tests that a lost worker has not begun, and return the test that it was running."""
        work = self.assigned_work.pop(node)
        unfinished: list[str] = [test for unit in work.values() for test, ended in unit.items() if not ended]
        if not unfinished:
            return None
        for scope, unit in work.items():
            if waiting := {test: False for test in unit if test in unfinished[1:]}:
                self.workqueue[scope] = waiting
        for other in self.nodes:
            self._reschedule(other)
        return unfinished[0]

    def _reschedule(self, node: Any) -> None:
        """Give a worker two tests if possible, because it begins a test only when it knows the next one."""
        super()._reschedule(node)
        if self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)
