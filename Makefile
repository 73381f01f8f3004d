# Two commands to know: `make serve` runs it, `make test` proves it. Each sets up what it needs in .venv first.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && echo $$p && break; done)
BIN := .venv/bin

.PHONY: serve test check prefetch fix bench docs clean

# Python keeps its byte code: the tests start thousands of processes.
unexport PYTHONDONTWRITEBYTECODE

serve: .venv/serve        ## Start a Kafka cluster of one node, broker and controller, on 127.0.0.1:9092
	$(BIN)/kwire serve

test: .venv/test          ## Every check, then the interoperability tests (they need Java 17, Maven, kcat, Chromium and Prometheus)
	$(MAKE) --no-print-directory -j2 check prefetch
	$(BIN)/python -m tools.check interop

check: .venv/test         ## Every check: generated files, lint, import contracts, types, unit tests, links
	$(BIN)/python -m tools.check

prefetch: .venv/test      ## Jars, archived classes and another PySpark for the interoperability tests
	$(BIN)/python -m tools.prefetch

fix: .venv/test           ## The same, rewriting what can be rewritten
	$(BIN)/python -m tools.check --fix

bench: .venv/bench        ## The speed of codec and server beside other libraries and real Kafka
	$(BIN)/python -m tools.bench

docs: .venv/docs          ## The pages as a site, in build/docs
	$(BIN)/python -m tools.site

clean:                    ## Remove the environment
	rm -rf .venv

.venv/serve: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e .
	touch $@

# PySpark, of which pip builds a wheel, is installed beside the rest; the last command finds all but a few there.
.venv/test: export DIST_EXTRA_CONFIG = $(CURDIR)/tools/uncompressed_wheels.cfg
.venv/test: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q --no-compile --no-deps "$$(sed -n 's/^ *\(pyspark .*\)$$/\1/p' setup.cfg)" & \
	    $(BIN)/python -m pip install -q --no-compile -e '.[test,check]' && wait $$! && \
	    $(BIN)/python -m pip install -q --no-compile -e '.[test,check,spark]'
	touch $@ .venv/serve

.venv/bench: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[bench,spark]'
	touch $@ .venv/serve

.venv/docs: setup.cfg pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -q -e '.[docs]'
	touch $@ .venv/serve

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "no Python of 3.11 or newer on the PATH: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv .venv
