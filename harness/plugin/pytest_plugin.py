"""The pytest plugin: its options, and the hooks that turn a pytest run into a conformance run."""

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DistrustError, NothingSelectedError, UnavailableError, UsageError
from harness.judging.exit_codes import ExitCode
from harness.model.escaping import for_terminal
from harness.model.neutral_output import neutral_streams
from harness.run.run import RUN, Run, run_of
from harness.run.signals import deaf_python
from harness.run.suite_files import SUITE, place_of
from harness.settings.options import OPTIONS, resolve

_WORKER_INPUT = "trafficdist"
_CODES: dict[type[BaseException], ExitCode] = {
    NothingSelectedError: ExitCode.NOTHING_SELECTED,
    DistrustError: ExitCode.DISTRUST,
    UnavailableError: ExitCode.DISTRUST,
}
_RESTARTS = 1000  # the maximum number of worker restarts: a lost worker affects only the requirement that it runs
_KIND_FACTOR = 4.0  # the upgrade procedure of a KEP replaces the API server, controller and all proxies up to six times


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance", "conformance of topology-aware Service routing (trafficdist)")
    group.addoption("--td-options-file", metavar="FILE", help="YAML file with options; omit the prefix --td- in it.")
    parser.addini("td_options_file", "YAML file with options for trafficdist")
    for option in OPTIONS:
        action: dict[str, Any] = {"value": {}, "list": {"action": "append"}, "flag": {"action": "store_true"}}[
            option.kind
        ]
        metavar = {} if option.kind == "flag" else {"metavar": option.metavar}
        group.addoption(
            f"--td-{option.name}", dest=f"td_{option.key}", default=None, help=option.help, **metavar, **action
        )
        parser.addini(f"td_{option.key}", option.help)


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Resolve the settings before xdist reads its options, and print any error that prevents the run."""
    if not hasattr(config, "workerinput"):
        try:
            _take_charge(config)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error
    try:
        ours = run_of(config) is not None or _WORKER_INPUT in getattr(config, "workerinput", ())
        with neutral_streams() if ours else contextlib.nullcontext():
            status = yield
    except pytest.UsageError as error:  # the only error that pytest passes on unchanged
        code = next((each for kind, each in _CODES.items() if isinstance(error.__cause__, kind)), None)
        if code is None:
            raise
        print(f"error: {for_terminal(str(error))}", file=sys.stderr)  # noqa: T201
        return int(code)
    run = run_of(config)
    if run is not None and not run.worker:
        run.folder.abandon()  # removes the folder if nothing was run
        if run.distrust and status == ExitCode.INTERNAL_ERROR:
            print(f"error: {for_terminal(run.distrust[0])}", file=sys.stderr)  # noqa: T201
            return int(ExitCode.DISTRUST)
    if run is not None and run.usage_error:  # from a worker, which cannot end the run itself
        raise pytest.UsageError(run.usage_error)
    return status


def _take_charge(config: pytest.Config) -> None:
    given = {option.name: getattr(config.option, f"td_{option.key}") for option in OPTIONS}
    ini = {option.name: config.getini(f"td_{option.key}") for option in OPTIONS}
    asked = any(value not in (None, "", []) for value in (*given.values(), *ini.values()))
    options_file = config.option.td_options_file or config.getini("td_options_file")
    if not (asked or options_file or any(name.startswith("TRAFFICDIST_") for name in os.environ)):
        return
    settings = resolve(given, options_file=options_file or "", ini=ini)
    if not settings.backend:
        raise UsageError("--td-backend: choose where to run; available: netns, kubeconfig, kind")
    if settings.kubernetes_version or settings.feature_gates:
        from harness.control_planes.embedded import features_of

        try:
            features_of(settings.release)
        except UsageError as error:
            raise UsageError(f"--kubernetes-version, --feature-gates: {error}") from None
    if config.option.collectonly:
        return

    from harness.plugin import progress
    from harness.run.folder import OutputFolder, default_path

    folder = OutputFolder(Path(settings.output_dir).absolute() if settings.output_dir else default_path())
    run = Run(settings, folder, _arguments(config), whole_suite=_is_whole_suite(config))
    config.stash[RUN] = run
    if not config.option.basetemp:  # pytest's own folder is named after $LOGNAME, and may belong to another user
        config.option.basetemp = str(folder.parts / "pytest")
    run.suite = _suite(config)
    if run.suite == place_of():  # another suite may have features of its own, and is collected first
        from harness.run.plan import check_claims

        check_claims(settings)
    run.workers = _set_workers(config, run)
    if getattr(config.option, "maxschedchunk", 1) is None:
        config.option.maxschedchunk = 1  # longest first: several long tests in one worker would delay the end
    if getattr(config.option, "maxworkerrestart", 1) is None:
        config.option.maxworkerrestart = str(_RESTARTS)
    progress.hush(config)


def _set_workers(config: pytest.Config, run: Run) -> str:
    if (asked := getattr(config.option, "numprocesses", None)) is not None:
        return str(asked or "none")
    workers = run.settings.workers
    if workers == "auto" and hasattr(config.option, "numprocesses"):
        from harness.run.durations import before_collection
        from harness.run.workers import count_workers, this_machine

        number = count_workers(run.settings, before_collection(run.settings, run.suite), this_machine())
    else:
        number = int(workers) if workers.isdecimal() else 0
    if number and not hasattr(config.option, "numprocesses"):
        raise UsageError(f"--workers {workers} needs pytest-xdist, which is disabled")
    if number:
        config.option.numprocesses = number
    return str(number or "none")


def _suite(config: pytest.Config) -> Path:
    """Return the suite's folder: the nearest folder above the tests that has a needs.yaml, or the tests' own folder."""
    from harness.model.needs import FILE

    published = config.args[:1] == [SUITE] and config.option.pyargs
    place = place_of() if published else Path((config.args or ["."])[0].partition("::")[0]).resolve()
    return next((folder for folder in (place, *place.parents) if (folder / FILE).exists()), place)


def _arguments(config: pytest.Config) -> tuple[str, ...]:
    if config.pluginmanager.hasplugin("trafficdist_command"):
        return ("trafficdist", *sys.argv[1:])
    return ("pytest", *map(str, config.invocation_params.args))


def _is_whole_suite(config: pytest.Config) -> bool:
    arguments = [argument for argument in config.args if argument != SUITE or not config.option.pyargs]
    narrowed = config.option.keyword or config.option.markexpr or getattr(config.option, "deselect", None)
    return not narrowed and all(Path(argument).resolve() == place_of() for argument in arguments)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    worker = getattr(config, "workerinput", {})
    if _WORKER_INPUT in worker:
        config.stash[RUN] = Run.in_worker(worker[_WORKER_INPUT], worker["workerid"])
        _end_with_controller()
    run = run_of(config)
    if run is None:
        return
    from harness.eventually import set_time_scale
    from harness.model.limits import set_limits
    from harness.plugin import fixtures, steps
    from harness.plugin.recorder import Recorder

    set_time_scale(run.settings.time_scale)
    set_limits(run.settings.limits)
    _limit_scenarios(config, run)
    if not run.worker:
        from harness.plugin.progress import RunProgress
        from harness.plugin.result_collector import ResultCollector

        run.distributed = getattr(config.option, "dist", "no") != "no"
        _set_up(config, run)
        ledger = ResultCollector(run)
        config.pluginmanager.register(ledger, "trafficdist_ledger")
        config.pluginmanager.register(RunProgress(run, ledger, config), "trafficdist_progress")
    if not run.distributed:
        config.pluginmanager.register(Recorder(run), "trafficdist_recorder")
        if config.pluginmanager.hasplugin("allure_pytest"):
            steps.watch(config, run)
    config.pluginmanager.register(fixtures, fixtures.__name__)


def _limit_scenarios(config: pytest.Config, run: Run) -> None:
    given = getattr(config.option, "timeout", 0) is not None or "PYTEST_TIMEOUT" in os.environ
    if given or not (usual := float(config.getini("timeout") or 0)):
        return
    factor = _KIND_FACTOR if run.settings.backend == "kind" else 1.0
    config.option.timeout = usual * factor * max(1.0, run.settings.time_scale)


def _end_with_controller() -> None:
    """Make the kernel kill this worker when xdist's main process dies, so that it cannot disturb a later cleanup."""
    import ctypes
    import signal

    controller = os.getppid()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != controller:
        os._exit(1)


def _set_up(config: pytest.Config, run: Run) -> None:
    from harness.checks.check import require
    from harness.checks.machine import LIMITS
    from harness.plugin.suite import require_selection
    from harness.settings.implementations import of_settings

    try:
        require([LIMITS], None)
        if run.settings.backend == "kind":
            require_selection(config, run.settings)
        run.folder.prepare()
        if run.settings.backend == "netns":
            from harness.model.cluster_options import OF_BOTH_FAMILIES
            from harness.netns import sandbox

            sandbox.enter()
            of_settings(run.settings)
            if len(run.settings.families) == 1:
                why = f"IP families: this machine has only {run.settings.families[0]}"
                run.lacking = dict.fromkeys(OF_BOTH_FAMILIES, why)
        else:
            _take_cluster(config, run)
    except (UsageError, NothingSelectedError, DistrustError, UnavailableError) as error:
        run.folder.abandon()
        raise pytest.UsageError(str(error)) from error


def _take_cluster(config: pytest.Config, run: Run) -> None:
    from harness.plugin.display import with_heartbeat
    from harness.run.real_cluster import ClusterSession

    def say(text: str) -> None:
        print(for_terminal(text), file=sys.stderr, flush=True)  # noqa: T201

    def close() -> None:
        with with_heartbeat(say, "still releasing the cluster"):
            session.close()

    with with_heartbeat(say, f"still preparing the cluster of --backend {run.settings.backend}") as heard:
        session = ClusterSession(run.settings, heard)
        session.start()
    config.add_cleanup(close)
    run.target, run.lacking = session.target.to_json(), session.lacking


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Restart a worker that is killed while it starts. xdist itself only restarts workers that are killed later."""
    if run_of(config) is not None:
        for spec in specs:
            spec.python = spec.python or (deaf_python() if spec.popen else None)
        manager = config.pluginmanager.getplugin("dsession").nodemanager
        manager.setup_node = functools.partial(_start_worker, manager.setup_node, manager.group)


def _start_worker(set_up: Callable[..., Any], group: Any, spec: Any, putevent: Any) -> Any:
    for _ in range(2):
        try:
            return set_up(spec, putevent)
        except (EOFError, OSError) as error:  # errors from execnet have no errno
            if getattr(error, "errno", None) not in (None, errno.EPIPE):
                raise
            spec.id = None
            group.allocate_id(spec)
    return set_up(spec, putevent)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    run = run_of(node.config)
    if run is not None:
        node.workerinput[_WORKER_INPUT] = run.to_json()
        run.worker_pids.append(node.gateway._rinfo().pid)  # cached by xdist
        node.sendcommand = functools.partial(_send_if_alive, node.sendcommand)


def _send_if_alive(send: Callable[..., None], name: str, **values: Any) -> None:
    """Send a command to a worker unless the worker was killed. xdist detects the end of a worker itself."""
    with contextlib.suppress(OSError):
        send(name, **values)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run = run_of(metafunc.config)
    marker = metafunc.definition.get_closest_marker("generates")
    asked = run.settings.generation if run is not None else None
    if marker is None or asked is None:
        return
    workers = getattr(metafunc.config, "workerinput", {}).get("workercount", 1)
    parts = asked.split(marker.kwargs["among"], workers)
    metafunc.fixturenames.append("generation")
    metafunc.parametrize("generation", parts, indirect=True, ids=[f"part-{each.part}" for each in parts])
