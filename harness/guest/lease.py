"""The Lease `trafficdist/run`, which a run holds so that only one run uses a cluster at a time."""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from harness.api.client import Api, RefusedError, Response, path_of
from harness.errors import DistrustError, HarnessError
from harness.eventually import eventually
from harness.guest import errors, leftovers
from harness.guest.labels import LEASE, NAMESPACE, RUN_LABEL, new_run_id, run_labels
from harness.guest.lease_record import (
    LeaseRecord,
    ServerClock,
    has_ended,
    identity,
    is_of_here,
    lease_record_of,
    process_name,
)
from harness.guest.leftovers import Say

RENEW_SECONDS = 10.0
_BACK_SECONDS = 15.0  # seconds to retry the removal at the end of a run if the API server does not answer
_LOOK_SECONDS = 1.0
_TAKE_SECONDS = 90.0  # seconds until the namespace of a run that just ended is deleted

_LEASE_PATH = path_of("leases", NAMESPACE, LEASE)
_NAMESPACE_PATH = path_of("namespaces", "", NAMESPACE)


def silent(text: str) -> None:
    """Discard a message."""


@contextlib.contextmanager
def hold(
    api: Api,
    run_id: str,
    *,
    say: Say = silent,
    every: float = RENEW_SECONDS,
    force: bool = False,
    sweep: bool = True,
    ends: bool = False,
) -> "Iterator[HeldLease]":
    """Hold the Lease of the cluster for this run. At the end, remove the run's objects and the Lease, unless the
    cluster will be deleted (`ends`). `force` takes the Lease from a run that holds it. `sweep` removes leftovers of
    earlier runs first. Raises `DistrustError` if another run holds the Lease or the API server denies access to it.
    """
    held = HeldLease(api, run_id, say)
    held.take(force=force)
    thread = threading.Thread(target=held.keep, args=(every,), name="lease", daemon=True)
    thread.start()
    try:
        if sweep:
            held.sweep()
        yield held
    finally:
        held.ended.set()
        thread.join()
        if not ends:
            held.give_back()


def read_lease(api: Api, clock: ServerClock) -> LeaseRecord | None:
    """Return the record of the Lease's current or last holder, or None if there is no Lease. Raises `DistrustError`."""
    answer = clock.saw(api.request("GET", _LEASE_PATH))
    if answer.code == 404:
        return None
    return lease_record_of(_accepted(answer, "read the Lease").body)


def is_over(record: LeaseRecord, clock: ServerClock) -> bool:
    """Return whether the run of this record has certainly ended."""
    return has_ended(record.process) or clock.now() >= record.expires


class HeldLease:
    def __init__(self, api: Api, run_id: str, say: Say = silent) -> None:
        """Does not acquire the Lease: call `take`."""
        self.run_id = run_id
        self.ended = threading.Event()
        self.lost = ""
        self._api, self._say = api, say
        self._clock = ServerClock()
        self._record: LeaseRecord | None = None
        self._reported = False

    def take(self, *, force: bool = False) -> None:
        """Create the Lease, or take it over from a dead run. Raises `DistrustError`."""
        eventually(
            lambda: self._try_to_take(force=force),
            within=_TAKE_SECONDS,
            every=0.2,
            describe=f"the deletion of namespace {NAMESPACE}, which an ended run left",
            error=DistrustError,
        )

    def check(self) -> None:
        if self.lost:
            raise DistrustError(self.lost)

    def sweep(self) -> None:
        found = leftovers.find(self._api, not_of=self.run_id)
        if found:
            self._say(f"removing leftovers of an earlier run: {found}")
            leftovers.remove(self._api, found, self._say)

    def keep(self, every: float) -> None:
        while not self.ended.wait(every) and not self.lost:
            with contextlib.suppress(HarnessError):  # the API server may be back before the Lease expires
                self._renew()

    def give_back(self) -> None:
        """Remove this run's objects, and the Lease if this run holds it. The next run removes objects that remain."""
        deadline = time.monotonic() + _BACK_SECONDS
        done = bool(self.lost)
        while not done:
            try:
                self._remove()
                done = True
            except (HarnessError, RefusedError) as error:
                done = not errors.is_of_connection(error) or time.monotonic() >= deadline
                if done:
                    why = errors.of(error)
                    self._say(f"cleaning up the cluster failed: {why}; then run `trafficdist cleanup`")
                else:
                    time.sleep(0.2)

    def _remove(self) -> None:
        found = leftovers.find(self._api, run=self.run_id)
        owned = self._namespace_labels().get(RUN_LABEL) == self.run_id
        if owned:  # removed last, because it contains the Lease
            found = replace(found, namespaces=(*found.namespaces, NAMESPACE))
        leftovers.remove(self._api, found, self._say)
        if not owned:
            version = self._record.version if self._record else ""
            self._api.request("DELETE", _LEASE_PATH, {"preconditions": {"resourceVersion": version}})

    def _try_to_take(self, *, force: bool) -> bool:
        """Try to acquire the Lease. Return False if the caller should retry."""
        record = read_lease(self._api, self._clock)
        if not (self._make() if record is None else self._take_over(record, force=force)):
            return False
        if RUN_LABEL in self._namespace_labels():  # created by a run, not by a person: this run owns it now
            self._api.patch("namespaces", "", NAMESPACE, {"metadata": {"labels": run_labels(self.run_id)}})
        return True

    def _make(self) -> bool:
        metadata = {"name": NAMESPACE, "labels": run_labels(self.run_id)}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        answer = self._clock.saw(self._api.request("POST", path_of("namespaces"), namespace))
        if answer.code != 409:
            _accepted(answer, f"create namespace {NAMESPACE}")
        return self._write("POST", self._new_record())

    def _take_over(self, record: LeaseRecord, *, force: bool) -> bool:
        if record.run != self.run_id:
            if not force and not is_over(record, self._clock):
                raise DistrustError(in_use(record, self._clock))
            if not self._reported:
                self._reported = True
                self._say(f"{record.described(self._clock.now())}, did not release the cluster; taking it over")
        return self._write("PUT", replace(self._new_record(), version=record.version))

    def _new_record(self) -> LeaseRecord:
        now = self._clock.now()
        return LeaseRecord(self.run_id, identity(), now, now, process=process_name())

    def _renew(self) -> None:
        if self._record is None or self._write("PUT", replace(self._record, renewed=self._clock.now())):
            return
        found = read_lease(self._api, self._clock)
        if found is not None and found.process == self._record.process and found.run == self.run_id:
            self._record = replace(self._record, version=found.version)  # another client labelled it
            self._write("PUT", replace(self._record, renewed=self._clock.now()))
        elif found is not None:
            self.lost = f"during this run, another run took over the cluster: {found.described(self._clock.now())}"
        else:
            self.lost = "the Lease of this run was deleted during the run: another user has cleaned up the cluster"

    def _write(self, method: str, record: LeaseRecord) -> bool:
        """Write the Lease. Return False if another client was faster or the namespace is terminating."""
        path = _LEASE_PATH if method == "PUT" else path_of("leases", NAMESPACE)
        answer = self._clock.saw(self._api.request(method, path, record.lease()))
        if answer.code in {404, 409} or _is_terminating(answer):
            return False
        self._record = replace(record, version=lease_record_of(_accepted(answer, "write the Lease").body).version)
        return True

    def _namespace_labels(self) -> dict[str, str]:
        return dict(self._api.request("GET", _NAMESPACE_PATH).body.get("metadata", {}).get("labels") or {})


def in_use(record: LeaseRecord, clock: ServerClock) -> str:
    return (
        f"the cluster is in use by {record.described(clock.now())}; wait until that run ends, "
        f"or, if it was killed, until {record.expires:%H:%M:%S} UTC, when its Lease expires"
    )


def _is_terminating(answer: Response) -> bool:
    causes = {cause.get("reason") for cause in answer.causes}
    return answer.code == 403 and (
        "NamespaceTerminating" in causes or "being terminated" in str(answer.body.get("message"))
    )


def _accepted(answer: Response, what: str) -> Response:
    if answer.code >= 400:
        raise DistrustError(errors.of_answer(answer, doing=what))
    return answer


def cleanup(api: Api, *, run: str = "", force: bool = False, say: Say = silent) -> list[str]:
    """Remove the leftovers of a run, or of all runs, for example after `kill -9`. Return a line for each action. If a
    run on another machine may still be running, wait until its Lease is renewed or expires, at most half a minute.
    Raises `RefusedError`, and `DistrustError` during another run unless `force` is set.
    """
    clock = ServerClock()
    record = read_lease(api, clock)
    concerned = record is not None and run in {"", record.run}
    if record is not None and concerned and not force:
        _wait_until_over(api, record, clock, say)
    found = leftovers.find(api, run=run)
    if record is not None and not concerned:
        return leftovers.remove(api, found, say)
    if not found and record is None:
        return []
    with hold(api, new_run_id(), say=say, force=force, sweep=False):
        done = leftovers.remove(api, found, say)
    return done + ([f"the Lease of run {record.run} is deleted"] if record is not None else [])


def _wait_until_over(api: Api, record: LeaseRecord, clock: ServerClock, say: Say) -> None:
    if is_over(record, clock):
        return
    if is_of_here(record.process):
        raise DistrustError(_refused(record, clock))
    say(f"{record.described(clock.now())}, may still be running: its Lease expires at {record.expires:%H:%M:%S} UTC")
    while not is_over(record, clock):
        time.sleep(_LOOK_SECONDS)
        seen = read_lease(api, clock)
        if seen is None:
            return
        if seen.renewed != record.renewed or seen.run != record.run:
            raise DistrustError(_refused(seen, clock))


def _refused(record: LeaseRecord, clock: ServerClock) -> str:
    return f"{in_use(record, clock)}; --force removes its objects anyway"
