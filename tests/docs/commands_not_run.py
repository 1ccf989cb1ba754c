"""Commands in the documentation that no test runs, with reasons, and commands with an exit code other than 0."""

from __future__ import annotations

_SELF = "it installs from a registry and runs for minutes; .ci/run runs it on each push"
_NIGHT = "it runs for hours, and runs this test too; ci.yaml runs it every night"
_MUTATION = "it takes minutes or hours; tests/mutation runs the same with few mutants"
_UPSTREAM = "it compiles for minutes, and runs for minutes; nightly runs it"
_FRESH = "it needs root, and runs both main jobs; ci.yaml runs it"
_COMPONENT = "it needs a compiled or downloaded component; tests/harness runs those that the cache has"
_MINE = "it needs the reader's own proxy; tests/harness/proxies runs a recipe"
_NEXT = "it needs a pre-release of Kubernetes; tests/harness/deploy/test_nightly_next.py compares two reports"
_DECISIONS = "it needs the reader's own function; tests/conformance/test_small_scope.py checks the function of the page"
_DOWNLOAD = "it needs the network; tests/harness/binaries does the same with local servers"
_KIND = "it needs kind and images of nodes; nightly-kind.yml runs kind clusters"
_IMAGE = "it needs a registry, to pull the base image or to push ours"
_IMAGE_OF = "it needs an engine, and compiles or downloads; a note of 2026-11-24 says what it made"
_BASE = "it makes an image of Debian's and Python's packages, for minutes; test_deployed.py judges with one"
_JOB = "it needs a cluster that runs Jobs, and our image; tests/harness/deploy/test_job_and_sonobuoy.py runs it on kind"
_SHARDS = (
    "it needs a cluster that runs Jobs, and our image; tests/harness/deploy/test_manifests.py runs the pods' command"
)
_SONOBUOY = "it needs Sonobuoy, and images; tests/harness/deploy/test_job_and_sonobuoy.py runs it on kind"
_NO_CRD = "the embedded cluster already serves PodLocators"
_DEFINITIONS = "it needs definitions of kinds; tests/reference/apiserver/test_published_definitions.py applies some"
_NODE = "it needs Node, and downloads; tests/harness/report/test_allure.py makes the same report where npm is"
_SHELL = "it is for an interactive shell; tests/harness/commands/test_completion.py presses the tab key in one"
_OWN = "it needs the package of the page; tests/docs/test_own_suites.py writes that and runs these"
_LIVES = "tests/conformance/test_generated.py writes and reads such files"
_GRID = "tests/conformance/test_live_changes.py writes and reads that suite"
_VERIFIED = "it needs a report; tests/harness/report/test_forgeries.py verifies good and bad ones"
_WHOLE = "it needs a whole run, of minutes; tests/tools/shelf/test_shelf.py adds one of a small suite"
_SUBMISSION = "it needs a report to submit; tests/harness/report/test_submission.py submits good and bad ones"
_SHELF = "it writes into the checkout; tests/tools/shelf/test_shelf.py makes the same index of a copy"
_RELEASE = "it makes a release; tests/harness/report/test_submission.py submits reports of one"
_BUILT = "it needs a program that compiles for minutes; tests/implementations builds with a fake compiler"
_STREAM = "it runs until it is interrupted, or needs a terminal; tests/emulator/kubelet/server does the same"
_NODE_IMAGE = "it needs an engine, and compiles for minutes; tests/tools/node_image makes one"

RUNNABLE = {"export", "kubectl", "pytest", "python3", "trafficdist"}
"""Programs that are available to a test session. Other commands must be in the table."""

NOT_RUN = {
    "trafficdist check-decisions --decisions my_proxy.topology:decide": _DECISIONS,
    "trafficdist check-decisions --program 'my-proxy decide' --every-group": _DECISIONS,
    "trafficdist check-decisions --endpoints 2 --any-silence --no-node-hints --every-group "
    "--program 'cilium decide'": _BUILT,
    "make kind-image KUBERNETES=1.34": _NODE_IMAGE,
    'make kind-image KUBERNETES=1.34 ALSO="1.33"': _NODE_IMAGE,
    "make kind": _NODE_IMAGE,
    "make kind-whole": _NODE_IMAGE,
    "make kind-skew": _NODE_IMAGE,
    "trafficdist run --backend kind --kind-image trafficdist.dev/kind-node:v1.34.12": _KIND,
    "trafficdist kind-image 1.34 --runtime /usr/local/lib/trafficdist": _NODE_IMAGE,
    "source <(trafficdist completion bash)": _SHELL,
    "make benign": _NIGHT,
    'make benign ID="SLICE/* CHANGES/*"': _NIGHT,
    "make benchmarks": "it measures for minutes",
    "make upstream-e2e": _UPSTREAM,
    "make upstream-matrix": _UPSTREAM,
    'make upstream-matrix ARGS="--at-once 3"': _UPSTREAM,
    "make upstream-e2e VERSION=1.34": _UPSTREAM,
    "make upstream-e2e ARGS=\"--group 'Topology Hints' --proxy reference\"": _UPSTREAM,
    "make certify": _SELF,
    "make fresh": _FRESH,
    "make lint": _SELF,
    "make mutation": _MUTATION,
    'make mutation ARGS="--sample 40 --seed 20261123"': _MUTATION,
    'make mutation ARGS="--module reference.proxy.decision --sample 50"': _MUTATION,
    "make nightly": _NIGHT,
    "make shelf": _COMPONENT,
    "trafficdist verify FOLDER": _VERIFIED,
    "trafficdist shelf add latest": _WHOLE,
    "trafficdist shelf index": _SHELF,
    "trafficdist doctor --proxy mine.yaml": _MINE,
    "trafficdist proxy check mine.yaml": _MINE,
    "trafficdist proxy init mine.yaml": "tests/harness/commands/test_proxy_init.py runs it",
    "trafficdist run --options-file acme.yaml": _MINE,
    "trafficdist run --options-file acme.yaml -n 2": _MINE,
    "trafficdist shelf add latest --shelf reports": _WHOLE,
    "trafficdist shelf check reports/1.37/acme-acme-proxy/1.2.3-nftables": _SUBMISSION,
    "git add reports/1.37/acme-acme-proxy": _SUBMISSION,
    'git commit --all --message "Release version 0.1.0"': _RELEASE,
    'git tag --annotate v0.1.0 --message "trafficdist 0.1.0"': _RELEASE,
    "pipx install git+https://github.com/trafficdist/trafficdist": _DOWNLOAD,
    "uv tool install git+https://github.com/trafficdist/trafficdist": _DOWNLOAD,
    "git clone --branch v0.1.0 https://github.com/trafficdist/trafficdist": _DOWNLOAD,
    "pip install --require-hashes --requirement trafficdist/constraints.txt": _DOWNLOAD,
    "pip install --no-deps --no-build-isolation --editable trafficdist": _DOWNLOAD,
    "make skew": _COMPONENT,
    "make test": _SELF,
    "trafficdist cluster up --control-plane binaries:1.37 --proxy kube-proxy --mode iptables": _COMPONENT,
    "kubectl logs mine --follow --timestamps": _STREAM,
    "kubectl exec -it mine -- sh": _STREAM,
    "kubectl apply --server-side -f my-definitions.yaml": _DEFINITIONS,
    "kubectl wait --for=condition=Established crd/widgets.example.com": _DEFINITIONS,
    "trafficdist components path kube-proxy 1.34": _COMPONENT,
    'export PATH="$(dirname "$(trafficdist components path coredns)"):$PATH"': _COMPONENT,
    "trafficdist doctor --backend netns --dns implementations/coredns/coredns.yaml": _COMPONENT,
    "trafficdist run --control-plane binaries:1.37": _COMPONENT,
    "trafficdist run --control-plane binaries:1.37 --profile cluster": _COMPONENT,
    "trafficdist run --control-plane containers:1.34": _COMPONENT,
    "trafficdist run --controller kube-controller-manager:1.34": _COMPONENT,
    "trafficdist run --dns implementations/coredns/coredns.yaml": _COMPONENT,
    "trafficdist run --options-file examples/skew/kep-4444.yaml --mode iptables -n 2": _COMPONENT,
    "trafficdist components fetch kube-proxy 1.37.2 1.38.0-beta.0": _NEXT,
    "trafficdist run --proxy kube-proxy:1.37.2 --kubernetes-version 1.37.2 --output-dir final/kube-proxy": _NEXT,
    "trafficdist run --proxy kube-proxy:1.38.0-beta.0 --kubernetes-version 1.38.0-beta.0 "
    "--output-dir next/kube-proxy": _NEXT,
    "trafficdist compare --changes final next": _NEXT,
    "trafficdist run --proxy kube-proxy": _COMPONENT,
    "trafficdist run --proxy kube-proxy --mode iptables": _COMPONENT,
    "trafficdist run --proxy kube-proxy:1.34 --mode iptables -n 2": _COMPONENT,
    "trafficdist run --controller mine.yaml": _MINE,
    "trafficdist run --proxy mine.yaml": _MINE,
    "trafficdist run --proxy mine.yaml --quick": _MINE,
    "trafficdist list --suite acme_suite": _OWN,
    "trafficdist run --suite acme_suite": _OWN,
    "pytest --pyargs acme_suite --td-backend netns": _OWN,
    "mkdir alone && touch alone/__init__.py": _GRID,
    "python -m conformance.interactions": _GRID,
    "python -m conformance.interactions cell-7 change-106 > alone/test_alone.py": _GRID,
    "trafficdist run --suite alone": _GRID,
    "trafficdist run --replay scenarios.yaml": _LIVES,
    "python -m conformance.generated corpus 1 12": _LIVES,
    "go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12": _DOWNLOAD,
    "cd trafficdist-results/latest && npx --yes allure@3.18.0 generate allure-results": _NODE,
    "sed -i /googletagmanager/d allure-report/index.html": _NODE,
    "trafficdist components fetch coredns --from source": _DOWNLOAD,
    "trafficdist components fetch etcd 3.6.4": _DOWNLOAD,
    "trafficdist components fetch kube-proxy": _DOWNLOAD,
    "trafficdist components fetch kube-proxy 1.33.4 1.34.2": _DOWNLOAD,
    "trafficdist components fetch kube-proxy 1.34": _DOWNLOAD,
    "trafficdist components fetch kube-proxy 1.34 --from source": _DOWNLOAD,
    "trafficdist components fetch kube-proxy 1.34 "
    "--mirror https://mirror.example/k8s --mirror https://dl.k8s.io": _DOWNLOAD,
    "trafficdist components list kube-proxy --available": _DOWNLOAD,
    "kind create cluster --config kind-configs/three-zones.yaml": _KIND,
    "trafficdist run --backend kind": _KIND,
    "trafficdist run --backend kind --cni my-network.yaml": _KIND,
    "TRAFFICDIST_KEEP_CLUSTER=yes trafficdist run --backend kind": _KIND,
    "trafficdist run --backend kind --proxy mine.yaml": _KIND,
    "trafficdist run --backend kind --proxy examples/small-proxy/on-kind.yaml": _KIND,
    "trafficdist run --backend kind --cni implementations/flannel/kind/flannel.yaml": _KIND,
    "trafficdist run --backend kind --cni implementations/flannel/kind/flannel.yaml --families IPv4": _KIND,
    "trafficdist proxy check examples/small-proxy/on-kind.yaml --backend kind": _KIND,
    "trafficdist proxy check mine.yaml --backend kind": _KIND,
    "trafficdist doctor --backend kind --proxy mine.yaml": _KIND,
    "implementations/flannel/image": _IMAGE_OF,
    "mmdebstrap --variant=minbase --include=python3-minimal,libpython3-stdlib,nftables,conntrack "
    "--customize-hook='copy-in examples/small-proxy/small_proxy.py /' bookworm - "
    "| docker import - trafficdist.dev/small-proxy:1": _IMAGE_OF,
    "trafficdist run --backend kind --kind-image kindest/node:v1.33.7 "
    "--feature-gates PreferSameTrafficDistribution=true": _KIND,
    "trafficdist run --backend kind --mode nftables --families IPv4": _KIND,
    "trafficdist run --backend kind --profile endpointslice-controller --run-test "
    "KEP-4444/service-without-ports-settles": _KIND,
    "trafficdist run --backend kubeconfig --context kind-three-zones --proxy installed": _KIND,
    "docker build --file deploy/Containerfile --tag registry.example/trafficdist:0.1.0 .": _IMAGE,
    "docker build --file deploy/Containerfile --build-arg BASE=trafficdist.dev/python:3.11 "
    "--tag registry.example/trafficdist:0.1.0 .": _BASE,
    "pip download --dest wheels --require-hashes --requirement constraints.txt "
    "--requirement constraints-extras.txt": _BASE,
    r"printf '[global]\nno-index = true\nfind-links = /srv/wheels\n' > pip.conf": _BASE,
    "mmdebstrap --variant=minbase --include=python3-venv,ca-certificates --customize-hook='copy-in wheels /srv' "
    "--customize-hook='copy-in pip.conf /etc' bookworm python.tar": _BASE,
    "docker import python.tar trafficdist.dev/python:3.11": _BASE,
    "docker push registry.example/trafficdist:0.1.0": _IMAGE,
    "kubectl --namespace trafficdist-job cp results:/results/trafficdist ./results": _JOB,
    "kubectl --namespace trafficdist-job get pods --selector job-name=trafficdist "
    "--output jsonpath='{.items[0].status.containerStatuses[0].state.terminated.exitCode}'": _JOB,
    "kubectl --namespace trafficdist-job logs --follow job/trafficdist": _JOB,
    "kubectl --namespace trafficdist-job wait --for=jsonpath='{.status.ready}'=1 --timeout 10m job/trafficdist": _JOB,
    "kubectl create namespace trafficdist-job": _JOB,
    "kubectl --namespace trafficdist-job create configmap options "
    "--from-literal TRAFFICDIST_RUN_TEST='KEP-4444/*'": _JOB,
    "kubectl --namespace trafficdist-job wait --for=condition=Ready pod/results": _JOB,
    "kubectl apply -f deploy/rbac.yaml -f deploy/job.yaml": _JOB,
    "kubectl apply -f deploy/results.yaml": _JOB,
    "kubectl delete -f deploy/job.yaml": _JOB,
    "kubectl apply -f deploy/job-sharded.yaml": _SHARDS,
    "kubectl --namespace trafficdist-shards wait --for=condition=Complete --timeout 1h job/trafficdist": _SHARDS,
    "kubectl --namespace trafficdist-shards exec results -- "
    "sh -c 'trafficdist merge /results/[0-9] --output-dir /results/merged'": _SHARDS,
    "kubectl --namespace trafficdist-shards cp results:/results/merged ./merged": _SHARDS,
    "kubectl delete -f deploy/job-sharded.yaml": _SHARDS,
    "trafficdist verify merged": _VERIFIED,
    "kubectl --namespace kube-system logs --selector k8s-app=kube-proxy --prefix --tail -1 "
    "| grep 'since node is missing label'": _KIND,
    "sonobuoy results $(sonobuoy retrieve) --plugin trafficdist": _SONOBUOY,
    "sonobuoy run --plugin deploy/sonobuoy-plugin.yaml --wait": _SONOBUOY,
    "kubectl apply -f reference/pod_locator/crd.yaml": _NO_CRD,
    "trafficdist run --backend kubeconfig --proxy installed": _KIND,
    "trafficdist components fetch coredns 1.15.0 --from source": _COMPONENT,
    'export PATH="$(GONOPROXY=github.com/kubernetes-sigs/kpng implementations/build kpng):$PATH"': _BUILT,
    "trafficdist proxy check implementations/kpng/kpng.yaml": _BUILT,
    "TRAFFICDIST_ORGANIZATION=kubernetes-sigs trafficdist run --proxy implementations/kpng/kpng.yaml": _BUILT,
    'export PATH="$(implementations/build cilium):$PATH"': _BUILT,
    "trafficdist proxy check implementations/cilium/agent.yaml": _BUILT,
    "trafficdist doctor --proxy implementations/cilium/agent.yaml": _BUILT,
    "trafficdist run --proxy implementations/cilium/agent.yaml --run-test 'KEP-4444/*' -n 0": _BUILT,
    "trafficdist run --proxy implementations/cilium/agent.yaml --run-test "
    "KEP-1669/open-connections-outlive-hints-at-node-ports": _BUILT,
    "trafficdist proxy check implementations/cilium/cilium.yaml": _BUILT,
    "TRAFFICDIST_ORGANIZATION=cilium trafficdist run --proxy implementations/cilium/cilium.yaml": _BUILT,
    "TRAFFICDIST_ALL_FEATURES=yes trafficdist run --proxy implementations/cilium/cilium.yaml --run-test "
    "KEP-3015/node-then-zone-then-anywhere": _BUILT,
    **{
        f"trafficdist run --proxy implementations/cilium/agent.yaml --run-test {each} --draw plain": _BUILT
        for each in (
            "AFFINITY/node-port-from-outside",
            "HEALTH/check-node-port-comes-and-goes-with-the-policy",
            "KEP-4444/policy-table-at-external-ips",
        )
    },
    **{
        f"trafficdist run --proxy implementations/cilium/cilium.yaml --run-test {each}": _BUILT
        for each in (
            "CHANGES/slices-of-a-service",
            "INTERACTIONS/node-port",
            "KEP-1669/restarted-proxy-knows-who-terminates",
            "KEP-4444/cluster-policy-with-internal-local-and-hints",
            "KEP-4444/each-port-follows-its-own-hints",
        )
    },
    "trafficdist components fetch kube-controller-manager 1.37 --from source": _COMPONENT,
    "trafficdist run --controller kube-controller-manager:1.37": _COMPONENT,
    "TRAFFICDIST_SUPPORTED_FEATURES=ProxyReleases trafficdist run --proxy kube-proxy --mode nftables --run-test "
    "KEP-4444/older-proxy-needs-the-annotation": _COMPONENT,
    **{
        f"trafficdist run {options} --run-test {each}": _COMPONENT
        for options, each in (
            ("--controller kube-controller-manager --follow kep", "KEP-3015/zone-hint-follows-beside-the-node-hint"),
            ("--dns implementations/coredns/ignore-empty-service.yaml", "DNS/service-has-its-cluster-ips"),
            (
                "--options-file examples/skew/kep-3015.yaml --mode nftables",
                "KEP-3015/proxy-downgrade-falls-back-to-the-zone",
            ),
            (
                "--options-file examples/skew/kep-4444.yaml --mode iptables",
                "KEP-4444/enabling-changes-no-service-without-the-field",
            ),
            ("--options-file examples/skew/kep-4444.yaml --mode iptables", "KEP-4444/proxy-downgrade-sets-hints-aside"),
            ("--controller kube-controller-manager:1.37.2", "SLICE/ended-pods-are-no-endpoints"),
            ("--proxy kube-proxy", "CHANGES/a-slice-of-another-service"),
            (
                "--proxy kube-proxy:1.29 --mode nftables",
                "CHANGES/source-ranges-of-a-service,SERVICE/proxy-keeps-running",
            ),
            ("--proxy kube-proxy:1.31 --mode nftables", "SERVICE/external-local-does-not-restrict-clients-inside"),
            ("--proxy kube-proxy:1.35 --mode nftables", "KEP-4444/hints-come-and-go-without-loss"),
            ("--proxy kube-proxy:1.37", "'SERVICE/udp-flows-*'"),
            ("--proxy kube-proxy:1.37", "SERVICE/pod-reaches-itself --draw addresses=nowhere"),
        )
    },
    **{
        f"trafficdist run --proxy implementations/kpng/kpng.yaml --run-test {each}": _BUILT
        for each in (
            "KEP-1669/serving-endpoints-are-used-when-none-is-ready",
            "KEP-2086/local-without-endpoints-does-not-fall-back",
            "KEP-4444/every-hinted-endpoint-of-many-is-used",
            "KEP-4444/hints-come-and-go-on-a-live-service",
            "KEP-4444/partial-hints-are-set-aside",
            "KEP-4444/zone-without-endpoints-uses-every-endpoint",
            "SERVICE/node-port-of-another-node",
            "SLICE/slices-of-names-are-not-used",
        )
    },
}

EXIT_CODES = {
    "trafficdist run --mutant zone-names-by-prefix --run-test KEP-4444/zone-hints-keep-traffic-in-the-zone"
    " --draw names=cloud": 1,
    "trafficdist doctor --backend kubeconfig": 11,  # an embedded cluster lacks some abilities
    "trafficdist run --mutant skips-zone-tier": 1,  # it detects the fault
    "trafficdist explain --all": 1,  # the Service shop/web has no pods
    "trafficdist explain --all --format md": 1,
    "trafficdist explain --all --record here": 1,
    "trafficdist explain --all --from all.yaml": 1,
    "trafficdist explain --all --record before": 1,
    "trafficdist explain --all --record after": 1,
    "trafficdist explain shop/web": 1,
    "trafficdist explain shop/web --probe": 1,
    "trafficdist explain shop/web --from here": 1,
    "trafficdist explain shop/web --if without-zone=b --clients a=5,c=1": 1,
    "trafficdist explain shop/web --if version=1.34": 1,
}

SAYS = {
    'kubectl get --raw "/api/v1/namespaces/default/pods/mine:8080/proxy/dial'
    '?host=$WEB&port=80&request=hostname&tries=5"': '{"responses":["web-',
    "trafficdist cluster exec mine -- ip address": "inet 10.244.1.",
    "trafficdist explain shop/web": "Service shop/web",
    "trafficdist run --mutant skips-zone-tier": "KEP-3015/node-then-zone-then-anywhere",
}
"""Text that some commands must print, because exit code 0 alone proves little."""
