# Each target installs what it needs. Needs make and Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
ARGS ?=
WORKERS ?=
MODES ?= nftables iptables
N = $(if $(WORKERS),-n $(WORKERS))
OWN = $(or $(WORKERS),auto)
FROM ?= source

.DEFAULT_GOAL := help
.PHONY: help certify components history shelf skew test kind-image kind kind-whole kind-skew upstream-e2e upstream-matrix nightly benign mutation fresh requirement lint format benchmarks clean

help:  ## show this text
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## */  make \1\t/' | expand -t 24

certify: $(VENV)/.run  ## boot the embedded cluster, run every requirement against the reference, and write a report
	$(BIN)/trafficdist run --warnings-as-errors $(N) $(ARGS)

# the requirements that kube-proxy 1.37 is known not to meet: implementations/kube-proxy/findings
FINDINGS = --skip-tests SERVICE/udp-flows-*end-with-* --skip-tests SERVICE/pod-reaches-itself

components: $(VENV)/.run  ## judge the newest kube-proxy in both modes (exit code 1: its findings); compile it if it is not in the cache
	$(BIN)/trafficdist components fetch kube-proxy --from source || $(BIN)/trafficdist components path kube-proxy
	code=0; for mode in $(MODES); do \
	  $(BIN)/trafficdist run --proxy kube-proxy --mode $$mode $(N) $(ARGS) || code=$$?; \
	done; exit $$code

HISTORY ?= 1.29 1.30 1.31 1.33 1.34 1.35 1.37

history: $(VENV)/.run  ## judge several versions of kube-proxy in both modes (FROM=release downloads them instead of compiling)
	for version in $(HISTORY); do \
	  $(BIN)/trafficdist components path kube-proxy $$version || \
	  $(BIN)/trafficdist components fetch kube-proxy $$version --from $(FROM) || exit 1; \
	  for mode in $(MODES); do \
	    $(BIN)/trafficdist run --proxy kube-proxy:$$version --mode $$mode $(N) \
	      --output-dir trafficdist-results/history/$$version-$$mode $(ARGS) || test $$? -eq 1 || exit 1; \
	  done; \
	done
	$(BIN)/trafficdist compare trafficdist-results/history/*

# The runs of `make shelf`, one per line: environment variables, then options of `trafficdist run`.
define RUNS
--proxy reference
--proxy kube-proxy:1.34 --mode nftables
--proxy kube-proxy:1.34 --mode iptables
--proxy kube-proxy:1.35 --mode nftables
--proxy kube-proxy:1.35 --mode iptables
--proxy kube-proxy:1.37 --mode nftables
--proxy kube-proxy:1.37 --mode iptables
--controller kube-controller-manager:1.34
--controller kube-controller-manager:1.37
TRAFFICDIST_PROJECT=kube-apiserver --control-plane binaries:1.34 --profile api-server
TRAFFICDIST_PROJECT=kube-apiserver --control-plane binaries:1.37 --profile api-server
TRAFFICDIST_ORGANIZATION=cilium --proxy implementations/cilium/cilium.yaml
TRAFFICDIST_ORGANIZATION=kubernetes-sigs --proxy implementations/kpng/kpng.yaml
TRAFFICDIST_ORGANIZATION=trafficdist --proxy examples/small-proxy/small-proxy.yaml
TRAFFICDIST_ORGANIZATION=CoreDNS --dns implementations/coredns/coredns.yaml
TRAFFICDIST_ORGANIZATION=CoreDNS --dns implementations/coredns/zonal.yaml
TRAFFICDIST_ORGANIZATION=CoreDNS --dns implementations/coredns/ignore-empty-service.yaml
endef
export RUNS

shelf: $(VENV)/.run  ## judge the reference and the cached components, and add the reports to the shelf
	@test -z "$$(git status --porcelain --untracked-files=no 2>/dev/null)" || \
	  { echo "error: this checkout has changes, so its runs cannot be certified: commit them first" >&2; exit 4; }
	rm -rf trafficdist-results/shelf
	@coredns=$$($(BIN)/trafficdist components path coredns) && PATH="$${coredns%/*}:$$PATH"; \
	for name in cilium kpng; do folder=$$(implementations/build --cached $$name) && PATH="$$folder:$$PATH"; done; number=0; \
	printf '%s\n' "$$RUNS" | while read -r options; do \
	  number=$$((number + 1)); folder=trafficdist-results/shelf/$$number; code=0; \
	  variables=$${options%%--*}; options=--$${options#*--}; echo "$${variables}trafficdist run $$options"; \
	  env $$variables $(BIN)/trafficdist run $$options $(N) --output-dir $$folder $(ARGS) < /dev/null || code=$$?; \
	  case $$code in \
	    0|1|10|11) ;; \
	    12) rm -rf $$folder; echo "skipped: $$options" ;; \
	    *) exit $$code ;; \
	  esac; \
	done
	@code=0; $(BIN)/trafficdist shelf add trafficdist-results/shelf/*/ || code=$$?; $(BIN)/trafficdist shelf index; exit $$code

SKEW ?= 1.29 1.30 1.31 1.32 1.33 1.34

skew: $(VENV)/.run  ## upgrade and downgrade real components under traffic, following the procedures of two KEPs; FROM=release downloads
	$(BIN)/trafficdist components path etcd || $(BIN)/trafficdist components fetch etcd --from $(FROM)
	for component in kube-apiserver kube-controller-manager kube-proxy; do \
	  for version in $(SKEW) ''; do \
	    $(BIN)/trafficdist components path $$component $$version || \
	    $(BIN)/trafficdist components fetch $$component $$version --from $(FROM) || exit 1; \
	  done; \
	done
	for kep in kep-4444 kep-3015; do for mode in iptables nftables; do \
	  $(BIN)/trafficdist run --options-file examples/skew/$$kep.yaml --mode $$mode $(N) \
	    --output-dir trafficdist-results/skew/$$kep-$$mode $(ARGS) || test $$? -eq 1 || exit 1; \
	done; done

test: $(VENV)/.dev  ## run the tests of this project
	$(BIN)/python -m pytest -n $(OWN) --dist worksteal -m "not slow" $(ARGS)

VERSION ?=

upstream-e2e: $(VENV)/.dev  ## run Kubernetes' own e2e specs on the embedded cluster (VERSION=1.34; default: the newest)
	$(BIN)/trafficdist components path etcd || $(BIN)/trafficdist components fetch etcd --from $(FROM)
	for component in kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubectl; do \
	  $(BIN)/trafficdist components path $$component $(VERSION) || \
	  $(BIN)/trafficdist components fetch $$component $(VERSION) --from $(FROM) || exit 1; \
	done
	for component in e2e agnhost; do \
	  $(BIN)/trafficdist components path $$component $(VERSION) || \
	  $(BIN)/trafficdist components fetch $$component $(VERSION) --from source || exit 1; \
	done
	$(BIN)/python -m tests.upstream_e2e --version "$(VERSION)" $(ARGS)

upstream-matrix: $(VENV)/.dev  ## find the faults that Kubernetes' own e2e specs detect (takes hours, can be interrupted)
	$(BIN)/python -m tests.upstream_e2e.matrix --version "$(VERSION)" $(ARGS)

KUBERNETES ?= 1.34
ALSO ?=

kind-image: $(VENV)/.run  ## build a node image for kind without a registry (KUBERNETES=1.34; ALSO="1.33" adds components of 1.33)
	$(BIN)/trafficdist kind-image $(KUBERNETES) $(foreach version,$(ALSO),--also $(version)) $(ARGS)

# The requirements that `make kind` runs on each cluster: they depend on the differences between the clusters of kind-configs/, and one changes endpoints under traffic.
KIND_TESTS ?= KEP-4444/zone-hints-keep-traffic-in-the-zone KEP-4444/prefer-close-hints-the-own-zone KEP-4444/zone-loses-and-regains-its-endpoints \
  KEP-3015/node-then-zone-then-anywhere KEP-2086/local-stays-on-the-node KEP-4444/api-stores-the-field

KIND_PROFILES ?= --profile service-proxy --profile endpointslice-controller --profile api-server

# Check the programs of a kind cluster before a node image is built for minutes. Exit code 11 means that only some requirements cannot run.
KIND_CHECK = $(BIN)/trafficdist doctor --backend kind >&2 || test $$? -eq 11

KIND_RUN = $(BIN)/trafficdist run --backend kind --kind-image "$$image" -n 0

# The clusters of `make kind`, as options of `trafficdist run`. They are those of kind-configs/three-zones*.yaml that need
# no feature gate and no kernel module.
define KIND_RUNS
--families IPv4 --mode iptables
--families IPv4 --mode nftables
--families IPv4,IPv6 --mode iptables
--families IPv4,IPv6 --mode nftables
endef
export KIND_RUNS

kind: $(VENV)/.run  ## judge kube-proxy on kind clusters with such an image, with some requirements on each (KUBERNETES=1.34)
	@$(KIND_CHECK)
	@image=$$($(BIN)/trafficdist kind-image $(KUBERNETES) $(foreach version,$(ALSO),--also $(version))) && printf '%s\n' "$$KIND_RUNS" | while read -r options; do \
	  echo "trafficdist run $(KIND_TESTS) $(KIND_PROFILES) --backend kind --kind-image $$image $$options"; \
	  $(KIND_RUN) $(KIND_TESTS) $(KIND_PROFILES) $$options \
	    --output-dir "trafficdist-results/kind/$${image##*:}$$(echo "$$options" | tr -d ' ,' | tr -s '-')" $(ARGS) < /dev/null || exit; \
	done

# Exit code 11 means that such a cluster lacks something that a MUST needs. The run names each of these requirements.
kind-whole: $(VENV)/.run  ## judge whole profiles on two kind clusters: mode iptables with IPv4, and mode nftables with both families
	@$(KIND_CHECK)
	@image=$$($(BIN)/trafficdist kind-image $(KUBERNETES)) && for options in "--mode iptables --families IPv4" "--mode nftables --families IPv4,IPv6"; do \
	  echo "trafficdist run $(KIND_PROFILES) --backend kind --kind-image $$image $$options"; \
	  $(KIND_RUN) $(KIND_PROFILES) $$options --output-dir "trafficdist-results/kind/whole-$${image##*:}-$${options##* }" $(ARGS) || test $$? -eq 11 || exit 1; \
	done

KIND_SKEW ?= kep-3015:1.34:1.33 kep-4444:1.31:1.30:1.29  # procedure, release of the nodes, other releases that it uses

kind-skew: $(VENV)/.run  ## upgrade and downgrade kubeadm's components on kind clusters, following the procedures of two KEPs (an hour)
	@$(KIND_CHECK)
	@for each in $(KIND_SKEW); do \
	  set -- $$(echo "$$each" | tr : ' '); kep=$$1; release=$$2; shift 2; also=; \
	  for other; do also="$$also --also $$other"; done; \
	  image=$$($(BIN)/trafficdist kind-image "$$release" $$also) || { echo "no procedure of $$kep: see above"; continue; }; \
	  mkdir -p trafficdist-results/kind && sed '/^control-plane:/d; /^proxy:/d' "examples/skew/$$kep.yaml" > "trafficdist-results/kind/$$kep.yaml"; \
	  $(KIND_RUN) --options-file "trafficdist-results/kind/$$kep.yaml" --families IPv4 \
	    --output-dir "trafficdist-results/kind/$$kep" $(ARGS) || test $$? -eq 11 || exit 1; \
	done

KIND_VERSIONS ?= 1.31 1.33 1.34  # the releases that `make nightly` tests on kind

GENERATE ?= 10m

nightly: $(VENV)/.fuzz  ## also run the tests that take minutes: each mutant on whole clusters, commands of the documentation
	-$(BIN)/trafficdist kind-image $(KUBERNETES)  # without the image, the slow tests on kind clusters are skipped
	$(BIN)/python -m pytest -n $(OWN) -m "not hours and not kind" $(ARGS)
	$(BIN)/python -m pytest -n 0 -m "kind and not hours" $(ARGS)
	$(MAKE) certify ARGS="--follow released"
	$(MAKE) components ARGS='$(FINDINGS)'
	$(MAKE) upstream-e2e ARGS=
	for version in $(KIND_VERSIONS); do \
	  if $(BIN)/trafficdist kind-image $$version; then $(MAKE) kind KUBERNETES=$$version ARGS= || exit 1; \
	  else echo "no kind clusters of $$version tonight: see above"; fi; \
	done
	if $(BIN)/trafficdist kind-image $(KUBERNETES); then $(MAKE) kind-whole kind-skew ARGS= || exit 1; fi
	$(BIN)/python -m tests.conformance.false_failures --runs 4
	$(BIN)/python -m tests.mutation --sample 40 --seed $$(date +%Y%m%d) || test $$? -eq 1  # surviving mutants are reviewed by hand, and do not fail the night
	$(BIN)/trafficdist run --seed $$(date -u +%Y%m%d) $(N)
	$(BIN)/trafficdist run --generate $(GENERATE) --seed $$(date -u +%Y%m%d) $(N)

benign: $(VENV)/.dev  ## run each benign variant against all requirements that it claims, in both readings (hours; ARGS="-k takes-turns" ID="SLICE/*")
	BENIGN_ID='$(or $(ID),*)' $(BIN)/python -m pytest -n $(OWN) --dist load --maxschedchunk 1 -m hours $(ARGS)  # the longest tests start first

mutation: $(VENV)/.dev  ## run generated mutants (ARGS="--sample 500 --seed 1"; can be interrupted)
	$(BIN)/python -m tests.mutation $(if $(WORKERS),--workers $(WORKERS)) $(ARGS)

TARGETS ?= certify test

fresh:  ## run make certify and make test as on a fresh machine: clean clone, ordinary user, few programs on PATH
	.ci/fresh-machine $(TARGETS)

ID ?=

requirement: $(VENV)/.dev  ## measure the requirement ID=KEP-3015/some-thing, and write its generated entry
	@test -n "$(ID)" || { echo "error: name a requirement: make requirement ID=KEP-3015/some-thing" >&2; exit 4; }
	@$(BIN)/python -m tests.conformance.suite_files add "$(ID)"

lint: $(VENV)/.dev  ## check style, types, imports between packages, dependencies, and the entries of requirements
	@failed=; lint() { echo "$$*"; $(BIN)/"$$@" || failed="$$failed $$1"; }; \
	lint ruff check .; \
	lint ruff format --check .; \
	lint mypy; \
	lint mypy benchmarks; \
	lint lint-imports; \
	lint python -m tests.conformance.suite_files check; \
	lint deptry .; \
	lint deptry . --optional-dependencies-dev-groups dev --extend-exclude '^(tests|benchmarks)/'; \
	test -z "$$failed" || { echo "error: these checks failed:$$failed" >&2; exit 1; }

format: $(VENV)/.dev  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmarks: $(VENV)/.dev  ## measure the figures in docs/performance.md again (takes some minutes)
	for each in benchmarks/*.py; do $(BIN)/python $$each $(ARGS) || exit 1; done

clean:  ## remove the virtual environment and all caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist

PIP = $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off
HASHES = $(PIP) --require-hashes
INSTALL = $(BIN)/python .ci/progress.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is not Python 3.11 or newer; name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) .ci/progress.py "Making a virtual environment in $(VENV)" $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "error: $(PYTHON) cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  exit 1; }

# pip checks the hash of each dependency. It has none of this folder, which is therefore installed by itself.
$(VENV)/.run: $(VENV)/bin/python pyproject.toml constraints.txt constraints-extras.txt
	@$(INSTALL) "Installing trafficdist's dependencies into $(VENV)" $(HASHES) -r constraints.txt -r constraints-extras.txt
	@$(INSTALL) "Installing trafficdist into $(VENV)" $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.run constraints-dev.txt
	@$(INSTALL) "Installing the dependencies of its tests and linters into $(VENV)" $(HASHES) -r constraints-dev.txt
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev constraints-fuzz.txt
	@$(INSTALL) "Installing schemathesis into $(VENV)" $(HASHES) -r constraints-fuzz.txt
	@touch $@
